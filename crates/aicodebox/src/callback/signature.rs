use std::fmt::Write;

use hmac::{Hmac, KeyInit, Mac};
use secrecy::{ExposeSecret, SecretString};
use sha2::Sha256;

/// The value of `X-Aicodebox-Signature`: `t=<seconds since 1970>,v1=<hex>`, where the hex digits are the HMAC-SHA256
/// of `<t>.<body>`. With the time in it, a receiver can refuse what was sent long ago.
pub(super) fn sign(secret: &SecretString, seconds: u64, body: &[u8]) -> String {
    // A key of any length will do.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.expose_secret().as_bytes()) else {
        return String::new();
    };
    mac.update(format!("{seconds}.").as_bytes());
    mac.update(body);
    let mut value = format!("t={seconds},v1=");
    for byte in mac.finalize().into_bytes() {
        // Writing to a string does not fail.
        _ = write!(value, "{byte:02x}");
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signature_is_that_of_time_and_body() {
        // python3 -c 'import hmac; print(hmac.new(b"key", b"1700000000.{}", "sha256").hexdigest())'
        let expected = "9d713ed406bb7076d4123f0dc2c39d2df5c654ed4b0cd56b52c8b4c940bd63ae";
        let value = sign(&SecretString::from("key"), 1_700_000_000, b"{}");
        assert_eq!(value, format!("t=1700000000,v1={expected}"));
    }
}
