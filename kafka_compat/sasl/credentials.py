"""Makes the record of a salted password (RFC 5802), and holds a plain one against it."""

import hashlib
import hmac

from kafka_compat.model import ScramCredential, ScramMechanism


def credential_of(mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int) -> ScramCredential:
    """Returns what is kept of a salted password."""
    name = mechanism.hash_name
    client_key = hmac.digest(salted_password, b"Client Key", name)
    return ScramCredential(
        salt, hashlib.new(name, client_key).digest(), hmac.digest(salted_password, b"Server Key", name), iterations
    )


def password_fits(mechanism: ScramMechanism, credential: ScramCredential, password: str) -> bool:
    """Returns True if this is the password of a credential. Takes as long as its iterations ask for."""
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password.encode(), credential.salt, credential.iterations)
    found = credential_of(mechanism, credential.salt, salted, credential.iterations)
    return hmac.compare_digest(found.stored_key, credential.stored_key)
