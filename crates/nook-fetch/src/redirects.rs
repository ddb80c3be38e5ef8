//! Where a server may send a download. Pure.

use reqwest::Url;

use crate::source::check_url;

/// The address that `location` names, seen from `from`; or what is wrong with it.
///
/// From https only https follows, so nobody between can read or change what comes; http stays on
/// this machine, and only where the download began there.
pub(crate) fn follow(from: &Url, location: &str) -> Result<Url, String> {
    let to = from.join(location).map_err(|error| format!("to no address ({error})"))?;
    let shown = || to.host_str().unwrap_or("nowhere").to_owned();
    check_url(&to).map_err(|why| format!("to {}: {why}", shown()))?;
    if from.scheme() == "https" && to.scheme() != "https" {
        return Err(format!("to {} without encryption", shown()));
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(from: &str, location: &str, to: Option<&str>) {
        let from = Url::parse(from).unwrap();
        let found = follow(&from, location).ok();
        assert_eq!(found.as_ref().map(Url::as_str), to, "{from} -> {location}");
    }

    #[test]
    fn a_redirect_never_leaves_encryption() {
        let from = "https://a.example/x/y.gguf";
        check(from, "https://b.example/z?sig=1", Some("https://b.example/z?sig=1"));
        check(from, "/z.gguf", Some("https://a.example/z.gguf"));
        check(from, "http://b.example/z", None);
        check(from, "http://127.0.0.1/z", None);
        check(from, "file:///etc/passwd", None);
        check(from, "https://user:pass@b.example/", None);
        check(from, "https://[", None);
        check("http://127.0.0.1:1/x", "http://localhost:2/y", Some("http://localhost:2/y"));
        check("http://127.0.0.1:1/x", "http://b.example/y", None);
    }
}
