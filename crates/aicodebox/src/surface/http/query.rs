//! What is wrong with the query of an address.

use std::{error::Error, iter, str::FromStr};

use axum::extract::rejection::QueryRejection;
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, value},
};

use super::Problem;

/// 422 naming the part that cannot be accepted.
impl From<QueryRejection> for Problem {
    fn from(rejection: QueryRejection) -> Self {
        let causes = iter::successors(Some(&rejection as &dyn Error), |&error| error.source());
        let found = causes
            .filter_map(|error| error.downcast_ref::<serde_path_to_error::Error<value::Error>>())
            .next();
        let Some(error) = found else { return Self::unprocessable("query", rejection) };
        Self::of_part(&error.path().to_string(), &error.inner().to_string(), "query")
    }
}

/// A number, for serde: its own words are those of a programmer.
pub(super) fn number<'de, D: Deserializer<'de>, T: FromStr>(deserializer: D) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(|_| D::Error::custom("expected a whole number"))
}
