//! The port as the settings of a home say, opened as the program opens it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use nook_api::NodeHandle;
use nook_api::doctor::Verdict;
use nook_api::views::Trouble;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::kit::house;

/// A house whose port is open as `settings` say.
async fn opened(settings: &str) -> (NodeHandle, TempDir) {
    let (house, home) = house("Kitchen laptop", &format!("[port]\n{settings}")).await;
    nook_openai::open(house.clone()).await;
    (house, home)
}

/// A free port of this machine.
fn free_port() -> u16 {
    std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn at(house: &NodeHandle) -> u16 {
    let url = house.now().port.base_url.clone();
    url.trim_end_matches("/v1").rsplit_once(':').unwrap().1.parse().unwrap()
}

/// The status with which `/v1/models` answers a page of `origin`.
async fn status_for(address: SocketAddr, key: &str, origin: &str) -> u16 {
    let headers = format!("Host: {address}\r\nOrigin: {origin}");
    status_with(address, key, &headers).await
}

/// The status with which `/v1/models` answers a request with these headers.
async fn status_with(address: SocketAddr, key: &str, headers: &str) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /v1/models HTTP/1.1\r\n{headers}\r\nConnection: close\r\n\
         Authorization: Bearer {key}\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_switched_off_is_not_open() {
    let number = free_port();
    for (enabled, is_open) in [(false, false), (true, true)] {
        let settings = format!("enabled = {enabled}\naddress = \"127.0.0.1:{number}\"\n");
        let (house, _home) = opened(&settings).await;
        assert_eq!(house.now().port.on, is_open);
        assert_eq!(TcpStream::connect(("127.0.0.1", number)).await.is_ok(), is_open);
        house.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_port_is_where_it_is_set_to_be() {
    let number = free_port();
    let (house, _home) = opened(&format!("address = \"127.0.0.2:{number}\"\n")).await;
    let port = house.now().port.clone();
    assert!(port.on && port.base_url == format!("http://127.0.0.2:{number}/v1"), "{port:?}");
    assert!(TcpStream::connect(("127.0.0.2", number)).await.is_ok());
    assert!(TcpStream::connect(("127.0.0.1", number)).await.is_err());
    house.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn h10_another_program_at_the_other_address_of_localhost_is_named() -> io::Result<()> {
    // Where IPv6 is off nobody reaches anything there.
    let Ok(other) = TcpListener::bind("[::1]:0").await else { return Ok(()) };
    let number = other.local_addr()?.port();
    let (house, _home) = opened(&format!("address = \"127.0.0.1:{number}\"\n")).await;
    let port = house.now().port.clone();
    assert!(port.on, "{port:?}");
    let problem = port.problem.expect("it is said");
    let trouble = Trouble::PortShared { address: format!("[::1]:{number}") };
    assert_eq!(problem.trouble, Some(trouble));
    let findings = house.doctor().await.unwrap();
    let of_port = findings.iter().find(|finding| finding.subject == "port").unwrap();
    assert_eq!(of_port.verdict, Verdict::Problem);
    house.shut_down().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn other_machines_reach_the_port_only_where_it_is_exposed() {
    let here: IpAddr = [127, 0, 0, 2].into();
    for (settings, reaches) in [
        ("address = \"127.0.0.1:0\"\n", false),
        ("expose_to_lan = true\naddress = \"0.0.0.0:0\"\n", true),
    ] {
        let (house, _home) = opened(settings).await;
        assert!(house.now().port.on, "{:?}", house.now().port);
        // Another address of this machine stands for another machine.
        let reached = TcpStream::connect((here, at(&house))).await.is_ok();
        assert_eq!(reached, reaches, "{settings}");
        house.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn web_pages_use_the_port_only_from_origins_that_are_set() {
    const PAGE: &str = "http://notes.example";
    for (allowed, status) in [("[]", 403), ("[\"http://notes.example\"]", 200)] {
        let (house, _home) =
            opened(&format!("address = \"127.0.0.1:0\"\nallowed_origins = {allowed}\n")).await;
        let key = house.port_settings().await.unwrap().key.0.clone();
        let address = ([127, 0, 0, 1], at(&house)).into();
        assert_eq!(status_for(address, &key, PAGE).await, status, "{allowed}");
        house.shut_down().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_call_the_port_only_by_names_that_are_known_or_set() {
    for (allowed, status) in [("[]", 403), ("[\"Kitchen.lan\"]", 200)] {
        let (house, _home) =
            opened(&format!("address = \"127.0.0.1:0\"\nallowed_hosts = {allowed}\n")).await;
        let key = house.port_settings().await.unwrap().key.0.clone();
        let address = ([127, 0, 0, 1], at(&house)).into();
        // Whoever stands before the port may have another number, or the usual one.
        for host in ["kitchen.lan".to_owned(), format!("kitchen.lan:{}", at(&house))] {
            let answered = status_with(address, &key, &format!("Host: {host}")).await;
            assert_eq!(answered, status, "{allowed} {host}");
        }
        let foreign = status_with(address, &key, "Host: evil.kitchen.lan").await;
        assert_eq!(foreign, 403, "{allowed}");
        house.shut_down().await;
    }
}
