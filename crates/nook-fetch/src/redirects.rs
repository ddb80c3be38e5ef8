//! Where a server may send a download. Pure.

use std::net::IpAddr;

use reqwest::Url;

use crate::source::check_url;

/// Ends of names that only a network at home gives out.
const HOME_ENDS: [&str; 6] = [".local", ".localhost", ".lan", ".home", ".internal", ".home.arpa"];

/// The address that `location` names, seen from `from`; or what is wrong with it.
///
/// From https only https follows, so nobody between can read or change what comes; http stays on
/// this machine, and only where the download began there. A server of the internet leads to no
/// address of the network at home: what answers there is not what was meant, and may act on a
/// request.
pub(crate) fn follow(from: &Url, location: &str) -> Result<Url, String> {
    let to = from.join(location).map_err(|error| format!("to no address ({error})"))?;
    let shown = || to.host_str().unwrap_or("nowhere").to_owned();
    check_url(&to).map_err(|why| format!("to {}: {why}", shown()))?;
    if from.scheme() == "https" && to.scheme() != "https" {
        return Err(format!("to {} without encryption", shown()));
    }
    if is_at_home(&to) && !is_at_home(from) {
        return Err(format!("to {}, an address of the network at home", shown()));
    }
    Ok(to)
}

/// Whether an address is one of this machine or of a network at home, as far as it says.
fn is_at_home(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.');
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => {
            let is_shared = matches!(ip.octets(), [100, 64..=127, ..]);
            ip.is_private()
                || ip.is_loopback()
                || ip.is_link_local()
                || is_shared
                || ip.octets().first() == Some(&0)
                || ip.is_multicast()
                || ip.is_broadcast()
        }
        Ok(IpAddr::V6(ip)) => {
            ip.is_loopback()
                || ip.is_unspecified()
                || ip.is_unique_local()
                || ip.is_unicast_link_local()
                || ip.is_multicast()
                || ip.to_ipv4_mapped().is_some()
        }
        Err(_) => !host.contains('.') || HOME_ENDS.iter().any(|end| host.ends_with(end)),
    }
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

    #[test]
    fn a_server_of_the_internet_leads_to_no_address_of_the_network_at_home() {
        for home in [
            "https://192.168.1.1/x",
            "https://10.0.0.1/x",
            "https://172.16.3.4/x",
            "https://169.254.169.254/latest/meta-data",
            "https://127.0.0.1/x",
            "https://100.64.0.1/x",
            "https://0.0.0.0/x",
            // Other ways to write 192.168.1.1.
            "https://3232235777/x",
            "https://0xc0.0xa8.1.1/x",
            "https://[::1]/x",
            "https://[fe80::1]/x",
            "https://[fd00::1]/x",
            "https://[::ffff:192.168.1.1]/x",
            "https://router/x",
            "https://printer.local/x",
            "https://nas.lan./x",
        ] {
            check("https://a.example/x", home, None);
        }
        check("https://a.example/x", "https://93.184.216.34/x", Some("https://93.184.216.34/x"));
        // A mirror at home may.
        check("https://nas.lan/x", "https://192.168.1.5/x", Some("https://192.168.1.5/x"));
    }
}
