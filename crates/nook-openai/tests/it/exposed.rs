//! The port where the owner has opened it to the network: who reaches it, by which names, and that
//! nothing else of what guards it gives way.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};

use nook_api::PortSettings;
use nook_openai::{Limits, PortError};
use nook_testkit::skip;

use crate::kit::{Port, house};

/// An address of this machine that is not loopback; none where it has no network.
fn address_in_the_network() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    // Chooses a way out and sends nothing; the address is one of those kept for documents.
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

#[tokio::test(flavor = "multi_thread")]
async fn other_machines_reach_it_by_address_and_name_with_the_key_and_by_nothing_else() {
    let Some(ip) = address_in_the_network() else {
        skip("other_machines_reach_it_by_address_and_name", "no network");
        return;
    };
    let port = Port::exposed(Ipv4Addr::UNSPECIFIED.into()).await;
    let number = port.number();
    let from_there = SocketAddr::new(ip, number);
    let list = port.request("GET", "/v1/models");
    let status = async |host: String| {
        Port::ask_at(from_there, &list.clone().but("Host", host).bytes()).await.status
    };
    let container = "host.docker.internal".to_owned();
    for host in [ip.to_string(), "kitchen".to_owned(), "Kitchen.local".to_owned(), container] {
        assert_eq!(status(format!("{host}:{number}")).await, 200, "{host}");
    }
    for host in [
        format!("evil.com:{number}"),
        format!("0.0.0.0:{number}"),
        format!("*:{number}"),
        format!("kitchen.evil.com:{number}"),
        format!("host.docker.internal.evil.com:{number}"),
        format!("192.0.2.1:{number}"),
        format!("{ip}:{}", number ^ 1),
        ip.to_string(),
        "kitchen".to_owned(),
    ] {
        assert_eq!(status(host.clone()).await, 403, "{host}");
    }
    let host = format!("{ip}:{number}");
    let keyless = list.clone().but("Host", &*host).without("Authorization");
    assert_eq!(Port::ask_at(from_there, &keyless.bytes()).await.status, 401);
    let page = list.clone().but("Host", &*host).with("Origin", format!("http://{host}"));
    assert_eq!(Port::ask_at(from_there, &page.bytes()).await.status, 403);
    // An address of this machine is a name only for connections that came to it.
    let near = list.clone().but("Host", &*host);
    assert_eq!(Port::ask_at(([127, 0, 0, 1], number).into(), &near.bytes()).await.status, 403);
    port.close().await;
}

/// Whether a listener at `at` is reached by way of `by`, on this machine.
fn is_reached(at: IpAddr, by: IpAddr) -> bool {
    let listener = TcpListener::bind((at, 0));
    let address = listener.as_ref().ok().and_then(|listener| listener.local_addr().ok());
    address.is_some_and(|address| TcpStream::connect((by, address.port())).is_ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_one_family_answers_to_the_other_one_too() {
    let (v4, v6) = (Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into());
    let here = Ipv6Addr::LOCALHOST.into();
    let there = address_in_the_network();
    // Where `localhost` is only `::1`; and a socket of IPv6 that takes IPv4 as well, where the
    // system does that.
    for (at, by, is_possible) in [
        (v4, Some(here), is_reached(here, here)),
        (v6, Some(here), is_reached(v6, here)),
        (v6, there, there.is_some_and(|there| is_reached(v6, there))),
    ] {
        let Some(by) = by.filter(|_| is_possible) else {
            skip(&format!("a_port_of_one_family_answers at {at} by {by:?}"), "no such network");
            continue;
        };
        let port = Port::exposed(at).await;
        let address = SocketAddr::new(by, port.number());
        let list = port.request("GET", "/v1/models").but("Host", address.to_string());
        assert_eq!(Port::ask_at(address, &list.bytes()).await.status, 200, "{at} by {by}");
        port.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_not_opened_to_the_network_stays_on_this_machine() {
    let port = Port::open().await;
    for host in ["kitchen", "kitchen.local", "host.docker.internal"] {
        let host = format!("{host}:{}", port.number());
        let answer = port.ask(&port.request("GET", "/v1/models").but("Host", &*host)).await;
        assert_eq!(answer.status, 403, "{host}");
    }
    port.close().await;
    let (house, _home) = house("Kitchen laptop", "").await;
    let known = house.port_settings().await.unwrap();
    assert!(!known.exposed);
    let settings = PortSettings { on: true, address: ([0, 0, 0, 0], 0).into(), ..known };
    let refused = nook_openai::serve(house.clone(), &settings, Limits::USUAL, house.tasks()).await;
    assert!(matches!(refused, Err(PortError::NotLoopback { .. })));
    house.shut_down().await;
}
