/// A model as programs of one provider know it: `provider/model` is `model`, unless it is listed with the provider.
/// This is the one place where a name is cut, since cutting twice takes more than the provider away.
pub(super) fn without_provider<'a>(model: &'a str, listed: &[String]) -> &'a str {
    match model.split_once('/') {
        Some((_provider, name)) if !listed.iter().any(|listed| listed == model) => name,
        Some(_) | None => model,
    }
}
