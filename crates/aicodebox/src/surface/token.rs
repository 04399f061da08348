use axum::http::{HeaderMap, header};
use secrecy::{ExposeSecret, SecretString};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// The token that callers must send, as its hash: the comparison takes the same time for every wrong token,
/// whatever its length.
#[derive(Clone)]
pub(crate) struct Token([u8; 32]);

impl Token {
    pub(crate) fn new(secret: &SecretString) -> Self {
        Self(Sha256::digest(secret.expose_secret()).into())
    }

    pub(crate) fn matches(&self, candidate: &[u8]) -> bool {
        let candidate: [u8; 32] = Sha256::digest(candidate).into();
        self.0.ct_eq(&candidate).into()
    }
}

/// What follows the scheme `Bearer`, in whatever case that is written.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&[u8]> {
    let value = headers.get(header::AUTHORIZATION)?.as_bytes();
    let (scheme, rest) = value.split_at_checked(6)?;
    let token = rest.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"bearer") && rest.len() > token.len() && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(value: &str) -> Option<Vec<u8>> {
        let headers = HeaderMap::from_iter([(header::AUTHORIZATION, value.parse().unwrap())]);
        bearer(&headers).map(<[u8]>::to_vec)
    }

    #[test]
    fn the_scheme_is_read_in_any_case() {
        for value in ["Bearer t", "bearer t", "BEARER   t", "bEaReR t "] {
            assert_eq!(sent(value).as_deref(), Some(b"t".as_slice()), "{value}");
        }
        for value in ["", "t", "Bearer", "Bearer ", "Bearert", "Basic t", "Beare\u{7a}r t"] {
            assert_eq!(sent(value), None, "{value}");
        }
    }

    #[test]
    fn only_the_whole_token_matches() {
        let token = Token::new(&SecretString::from("secret"));
        assert!(token.matches(b"secret"));
        for wrong in ["", "secre", "secrets", "Secret", "secret "] {
            assert!(!token.matches(wrong.as_bytes()), "{wrong}");
        }
    }
}
