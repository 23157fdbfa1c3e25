"""Reports: what an evaluation found, as one HTML file and JSON beside it. Confidential unless made publishable."""
