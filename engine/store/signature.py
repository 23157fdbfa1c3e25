"""Signatures of releases: an office's Ed25519 key certifies that it made a release.

Next to `r.duckdb` is `r.duckdb.sig`: public key and signature, as JSON. The manifest's record of the file is signed:
its SHA-256 (so every byte, including cards and notes), content hashes, key id, vintage and versions. Anyone can write a
manifest; only the holder of the private key can write this. Whose key it is must be known from elsewhere: a signature
is checked only against a public key that the reader supplies.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import glob
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.errors import DamagedRelease, MissingPackage, SpecError, StoreError, UntrustedRelease
from engine.store.manifest import FORMAT_VERSION, ReleaseRecord, read_plain

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )

_CONTEXT = b"tablepack release signature 1\n"
"""Prefix of what is signed, so that a signature made for another purpose is never valid here."""
_MOST_BYTES = 10_000
_ALGORITHM = "Ed25519"
_PUBLIC_HEAD, _PRIVATE_HEAD = b"-----BEGIN PUBLIC KEY-----", b"-----BEGIN PRIVATE KEY-----"


@dataclass(frozen=True, kw_only=True, slots=True)
class Signature:
    """The signature of a release."""

    public_key: bytes  # Of the signer, according to the file: 32 bytes
    signature: bytes  # 64 bytes
    is_checked: bool = False  # It was verified against a key that the reader trusts

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the public key: SHA-256 of its 32 bytes."""
        return fingerprint_of(self.public_key)


def fingerprint_of(public_key: bytes) -> str:
    """Return the fingerprint of a public key, for people to compare."""
    digest = hashlib.sha256(public_key).digest()
    return "SHA256:" + base64.b64encode(digest).decode("ascii").rstrip("=")


def said_of(signature: Signature | None) -> str:
    """Return in words whether a release is signed, by which key, and whether that was checked."""
    if signature is None:
        return "not signed"
    if signature.is_checked:
        return f"signed by the trusted key {signature.fingerprint} (verified)"
    return f"claims to be signed by {signature.fingerprint} (not verified: no public key given)"


def signature_path(release: Path) -> Path:
    """Return the path of the signature of a release."""
    return release.with_name(release.name + ".sig")


def read_signature(release: Path) -> Signature | None:
    """Read the signature of a release; None if there is none. Only its form is checked."""
    path = signature_path(release)
    try:
        raw = read_plain(path, _MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise DamagedRelease(
            f"{release}: its signature {path.name} cannot be read ({error.strerror})"
        ) from None
    try:
        found = _parsed(raw)
    except (ValueError, RecursionError, binascii.Error):
        raise DamagedRelease(
            f"{release}: its signature {path.name} is invalid; get a new copy, or remove it"
        ) from None
    return found


def _parsed(raw: bytes) -> Signature:
    """Return a signature from the text of its file; ValueError if it is invalid."""
    fields = json.loads(raw.decode("utf-8")) if len(raw) <= _MOST_BYTES else None
    names = {"format_version", "algorithm", "public_key", "signature"}
    if not isinstance(fields, dict) or set(fields) != names:
        raise ValueError("missing or unknown fields")
    if fields["format_version"] != 1 or fields["algorithm"] != _ALGORITHM:
        raise ValueError("another format")
    key, signature = (_decoded(fields[k]) for k in ("public_key", "signature"))
    if (len(key), len(signature)) != (32, 64):
        raise ValueError("wrong length")
    return Signature(public_key=key, signature=signature)


def _decoded(text: Any) -> bytes:
    if not isinstance(text, str):
        raise ValueError("not text")
    return base64.b64decode(text, validate=True)


def _message(record: ReleaseRecord) -> bytes:
    """Return the bytes that are signed."""
    signed = {"format_version": FORMAT_VERSION, "release": asdict(record)}
    return _CONTEXT + json.dumps(signed, sort_keys=True, separators=(",", ":")).encode("utf-8")


def checked_signature(release: Path, record: ReleaseRecord, trust: Path) -> Signature:
    """Check the signature of a release whose bytes match a record."""
    key = _public_key(trust)
    found = read_signature(release)
    if found is None:
        raise UntrustedRelease(f"{release}: is not signed; a signature by {trust} is required")
    if found.public_key != key.public_bytes_raw():
        raise UntrustedRelease(
            f"{release}: is signed by {found.fingerprint}, not by {fingerprint_of(key.public_bytes_raw())} ({trust})"
        )
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(found.signature, _message(record))
    except InvalidSignature:
        raise UntrustedRelease(
            f"{release}: its signature belongs to another release, or was altered"
        ) from None
    return Signature(public_key=found.public_key, signature=found.signature, is_checked=True)


def sign_record(release: Path, record: ReleaseRecord, key: Path) -> Signature:
    """Write the signature of a release next to it."""
    private = _private_key(key)
    public = private.public_key().public_bytes_raw()
    known = read_signature(release)
    if known is not None and known.public_key != public:
        raise StoreError(
            f"{signature_path(release)}: is the signature of {known.fingerprint}; move it away to sign with another key"
        )
    made = Signature(public_key=public, signature=private.sign(_message(record)))
    fields = {
        "format_version": 1,
        "algorithm": _ALGORITHM,
        "public_key": base64.b64encode(made.public_key).decode("ascii"),
        "signature": base64.b64encode(made.signature).decode("ascii"),
    }
    _write_atomically(signature_path(release), json.dumps(fields, indent=1) + "\n")
    return made


def new_signing_key(path: Path) -> tuple[Path, str]:
    """Write a key pair: the private key to a path (mode 0600), the public one next to it, with extension .pub.

    Returns: Path and fingerprint of the public key.
    """
    with _package():
        from cryptography.hazmat.primitives import serialization as forms
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    public_path = path.with_suffix(".pub")
    if public_path == path:
        raise SpecError(
            f"{path}: choose another name for the private key; .pub is for the public one"
        )
    if os.path.lexists(public_path):
        raise StoreError(f"{public_path} exists; a key is never overwritten")
    private = Ed25519PrivateKey.generate()
    secret = private.private_bytes(
        forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption()
    )
    public = private.public_key().public_bytes(
        forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo
    )
    _create(path, secret, 0o600)
    try:
        _create(public_path, public, 0o644)
    except StoreError:
        path.unlink(missing_ok=True)
        raise
    return public_path, fingerprint_of(private.public_key().public_bytes_raw())


def _create(path: Path, data: bytes, mode: int) -> None:
    """Write a new file; never over another one."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError:
        raise StoreError(f"{path} exists; a key is never overwritten") from None
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from None
    with os.fdopen(handle, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _write_atomically(path: Path, text: str) -> None:
    """Write a file atomically."""
    part = None
    try:
        handle, part = tempfile.mkstemp(prefix=f".{path.name[:60]}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(part).chmod(0o644)
        Path(part).replace(path)
    except OSError as error:
        if part is not None:
            Path(part).unlink(missing_ok=True)
        raise StoreError(f"{path}: cannot be written ({error.strerror})") from None


@contextmanager
def _package() -> Iterator[None]:
    """Name the extra to install if the package is missing."""
    try:
        yield
    except ImportError:
        raise MissingPackage(
            "signatures need cryptography: pip install 'tablepack[sign]'"
        ) from None


def _key_bytes(path: Path) -> bytes:
    """Read a key file."""
    try:
        return read_plain(path, _MOST_BYTES)
    except OSError as error:
        raise SpecError(f"key file {path} cannot be read ({error.strerror})") from None


def _public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key."""
    with _package():
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    data = _key_bytes(path)
    try:
        key = load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise SpecError(
            f"{path}: is not a public Ed25519 key (PEM), such as tablepack sign --new writes"
        )
    return key


def _private_key(path: Path) -> Ed25519PrivateKey:
    """Read a private key, which must be readable by its owner only."""
    with _package():
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    data = _key_bytes(path)
    if _PUBLIC_HEAD in data:  # before its file mode, which is fine for a public key
        raise SpecError(
            f"{path}: is the public key, which can only verify signatures; sign with the private key, "
            f"{_private_key_of(path)}"
        )
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise SpecError(
            f"key file {path} can be read by other users; restrict it to its owner: chmod 600 {path}"
        )
    try:
        key = load_pem_private_key(data, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SpecError(
            f"{path}: is not a private Ed25519 key without a password (PEM), such as tablepack sign --new writes"
        )
    return key


def _private_key_of(public: Path) -> str:
    """The likely file of the private key of a public one: next to it, with the same name but for the extension."""
    for path in sorted(public.parent.glob(f"{glob.escape(public.stem)}*")):
        with contextlib.suppress(OSError):
            if path.stem == public.stem and _PRIVATE_HEAD in read_plain(path, _MOST_BYTES):
                return str(path)
    return "which tablepack sign --new wrote together with it"
