from __future__ import annotations

import duckdb
import numpy as np
import pandas as pd
import pytest
from fixtures.simulation import frame, query

from engine.simulation.rules import CENSUS_RULES, EVENT_RULES


def check_rules(census):
    for table, rules in (("people", CENSUS_RULES), ("events", EVENT_RULES)):
        counted = ", ".join(
            f"count(*) FILTER ({rule.condition}), count(*) FILTER (({rule.condition}) IS NULL)"
            for rule in rules
        )
        counts = np.array(query(census, f"SELECT {counted} FROM {table}")[0]).reshape(-1, 2)
        broken = [rule.name for rule, n in zip(rules, counts.sum(axis=1), strict=True) if n]
        assert broken == []


def test_no_record_is_impossible(census):
    check_rules(census)


IMPOSSIBLE = {
    "ages are 0 to 105": ("age", "age + 106"),
    "income is rounded to 10": ("income", "income + 3"),
    "nobody arrives after census day": ("arrival_date", "CAST(arrival_date AS DATE) + 40000"),
    "nobody arrives before birth": ("arrival_date", "CAST(arrival_date AS DATE) - 40000"),
    "managers from 18": ("age", "17"),
    "academic occupations need a master's degree": ("education", "'Bachelor'"),
    "visits lie in the year before census day": ("visit_date", "CAST(visit_date AS DATE) + 400"),
    "departments are listed": ("department", "department || '?'"),
}


@pytest.mark.ci
def test_each_rule_can_be_broken(census):
    frames = {"people": frame(census.people), "events": frame(census.events)}
    rng = np.random.default_rng(5)
    with duckdb.connect() as connection:
        for rule in (*CENSUS_RULES, *EVENT_RULES):
            source = frames["people" if rule in CENSUS_RULES else "events"]
            selected = "FROM source"
            if rule.name in IMPOSSIBLE:
                name, expression = IMPOSSIBLE[rule.name]
                selected = f"SELECT * REPLACE ({expression} AS {name}) FROM source"
            else:  # columns shuffled independently: combinations that never occur now do
                shuffled = {
                    n: source[n].to_numpy()[rng.permutation(len(source))] for n in rule.columns
                }
                source = pd.DataFrame(shuffled)
            connection.register("source", source)
            listed = ", ".join(rule.columns)  # the rule reads these and no others
            violated = f"count(*) FILTER ({rule.condition})"
            sql = f"SELECT {violated} FROM (SELECT {listed} FROM ({selected}))"
            assert connection.execute(sql).fetchall()[0][0] > 0, rule.name
