//! What every request must show before anything is done for it.
//!
//! Host must name this machine (DNS rebinding): loopback, a name that the owner allows, and where
//! the owner lets the network in, the address that the connection came to or this machine's name,
//! never just any; Origin must be listed (web pages), the key must fit, a body must say that it is
//! JSON (so that no page can send it without asking first), but in Ollama's form. Only `/healthz`
//! needs no key. The order matters: a page learns nothing from the difference between a wrong key
//! and none. Wrong keys are answered slowly, and only a few at once: guessing is slow while the good
//! key is not.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use nook_api::PortKeyHolder;
use nook_api::views::PortRequestKind;

use crate::answer::new_id;
use crate::caller::{Caller, Reported};
use crate::dialect::Dialect;
use crate::error::{ApiError, Listed};
use crate::port::{CameInAt, Port};
use crate::report;

/// How long a browser may remember the answer to its preflight.
const PREFLIGHT_SECONDS: &str = "600";

/// What containers call the computer that they run on. Nobody else can have these names:
/// `.internal` is kept out of DNS.
const CONTAINERS_HOSTS: [&str; 2] = ["host.docker.internal", "host.containers.internal"];

/// How long the answer to a wrong key takes.
const WRONG_KEY_PAUSE: Duration = Duration::from_millis(250);

/// Lets a request through, or answers it.
pub(crate) async fn check(State(port): State<Port>, request: Request, next: Next) -> Response {
    let caller = Caller {
        key: None,
        app: app(request.headers()),
        dialect: Dialect::of(&request),
        request_id: new_id("req_"),
        reported: Reported::default(),
    };
    let (dialect, id) = (caller.dialect, caller.request_id.clone());
    let (response, origin) = match inspect(&port, &request) {
        Ok(origin) if request.method() == Method::OPTIONS && origin.is_some() => {
            (preflight(&request), origin)
        }
        Ok(origin) => (let_in(&port, caller, request, next).await, origin),
        Err(error) => (error.into_response(), None),
    };
    harden(dialect.told(response, &id), origin.as_ref(), &id)
}

/// Answers a request that comes from where one may.
async fn let_in(port: &Port, mut caller: Caller, mut request: Request, next: Next) -> Response {
    let open = matches!(request.uri().path(), "/healthz" | "/health");
    let kind = kind_of(request.uri().path());
    let checked = if open { Ok(None) } else { check_key(port, request.headers()).await };
    let response = match checked {
        Ok(key) => {
            caller.key = key;
            match check_content_type(&request, caller.dialect) {
                Ok(()) => {
                    request.extensions_mut().insert(caller.clone());
                    answer(request, next).await
                }
                Err(error) => error.into_response(),
            }
        }
        Err(error) => {
            port.strangers.note(kind, &error);
            return error.into_response();
        }
    };
    // Only a refusal that got so far: what no browser page or foreign host may ask is none of a
    // program's.
    if let Some(Listed(error)) = response.extensions().get()
        && !caller.reported.is_set()
    {
        report::refused(&port.house, kind, &caller, error.listed());
    }
    response
}

/// What a request to this path is listed as, in each form of the path that the router takes.
fn kind_of(path: &str) -> PortRequestKind {
    let path = path.strip_suffix('/').unwrap_or(path);
    match path.strip_prefix("/v1").unwrap_or(path) {
        "/embeddings" | "/api/embed" | "/api/embeddings" => PortRequestKind::Embeddings,
        _ => PortRequestKind::Reply,
    }
}

/// What a client calls itself, as far as it may stand in a list.
fn app(headers: &HeaderMap) -> Option<String> {
    let said = headers.get(header::USER_AGENT)?;
    Some(report::cleaned(&String::from_utf8_lossy(said.as_bytes()))).filter(|app| !app.is_empty())
}

/// The route's answer. A fault of this program ends in an answer too, not in a cut connection.
async fn answer(request: Request, next: Next) -> Response {
    match AssertUnwindSafe(next.run(request)).catch_unwind().await {
        Ok(response) => response,
        Err(_) => ApiError::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "Inglenook failed to answer; its log says where.",
        )
        .into_response(),
    }
}

/// Checks Host and Origin; yields the listed origin, if one was sent.
fn inspect(port: &Port, request: &Request) -> Result<Option<HeaderValue>, ApiError> {
    let headers = request.headers();
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = match (hosts.next(), hosts.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        _ => {
            return Err(ApiError::forbidden("A request names this machine in one Host header."));
        }
    };
    // A target in absolute form names a host too, and goes before the header.
    let target = request.uri().authority().map_or(host, |authority| authority.as_str());
    let came_in_at = request.extensions().get().map(|CameInAt(address)| *address);
    let is_here = |host: &str| is_here(port, came_in_at, host);
    if !(is_here(host) && is_here(target)) {
        return Err(ApiError::forbidden(match port.exposed_as {
            Some(_) => {
                "This port answers only to an address or the name of this computer with its port number; list another name under [port] allowed_hosts."
            }
            None => {
                "This port answers only to 127.0.0.1 or localhost with its port number; list another name under [port] allowed_hosts."
            }
        }));
    }
    let origins: Vec<_> = headers.get_all(header::ORIGIN).iter().collect();
    let origin = match origins.as_slice() {
        [] => None,
        [one] if port.origins.iter().any(|allowed| one.as_bytes() == allowed.as_bytes()) => {
            Some((*one).clone())
        }
        _ => {
            return Err(ApiError::forbidden(
                "Web pages may not use this port; list the origin under [port] allowed_origins.",
            ));
        }
    };
    let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
    if origin.is_none() && matches!(site, Some(b"cross-site" | b"same-site")) {
        return Err(ApiError::forbidden("Web pages may not use this port."));
    }
    Ok(origin)
}

fn is_here(port: &Port, came_in_at: Option<SocketAddr>, host: &str) -> bool {
    let number = port.address.port();
    let known = ["127.0.0.1", "localhost", "[::1]"];
    let names = |name: &str| host.eq_ignore_ascii_case(&format!("{name}:{number}"));
    // Whoever stands before the port and has such a name may have another number.
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_allowed = port.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(name));
    if is_allowed || known.into_iter().any(names) {
        return true;
    }
    let Some(own_names) = &port.exposed_as else { return false };
    own_names.iter().any(|name| names(name))
        || CONTAINERS_HOSTS.into_iter().any(names)
        || came_in_at.zip(host.parse().ok()).is_some_and(|(at, named)| is_same(at, named))
}

/// Whether both are one address, however it is written: a socket for both families tells of IPv4 in
/// the form of IPv6, and only this machine knows which of its networks a link-local address is of.
fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    let plain = |address: SocketAddr| (address.ip().to_canonical(), address.port());
    plain(one) == plain(other)
}

/// The name of the key that fits; none for the main one.
async fn check_key(port: &Port, headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let Some(sent) = sent_key(headers) else {
        return Err(ApiError::unauthorized(
            "An API key is needed: `nook key` prints it, the window shows it under Settings, Other programs.",
        ));
    };
    match port.house.port_key_holder(sent) {
        Some(PortKeyHolder::Main) => Ok(None),
        Some(PortKeyHolder::Named(name)) => Ok(Some(name)),
        None => {
            let Ok(_place) = port.wrong_keys.try_acquire() else {
                return Err(ApiError::too_many("Too many wrong API keys. Try again shortly."));
            };
            tokio::time::sleep(WRONG_KEY_PAUSE).await;
            Err(ApiError::unauthorized("The API key is not the one of this house."))
        }
    }
}

/// The key as OpenAI's and Ollama's clients send it, or as Anthropic's do.
fn sent_key(headers: &HeaderMap) -> Option<&str> {
    let bearer = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.split_once(' '))
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, key)| key.trim());
    bearer.or_else(|| Some(headers.get("x-api-key")?.to_str().ok()?.trim()))
}

/// Ollama's clients need not say that a body is JSON, and `curl -d` says something else. A page that
/// left the word out to be let through unasked could not send the key unasked.
fn check_content_type(request: &Request, dialect: Dialect) -> Result<(), ApiError> {
    if request.method() != Method::POST || dialect == Dialect::Ollama {
        return Ok(());
    }
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    match essence {
        Some(essence) if essence.eq_ignore_ascii_case("application/json") => Ok(()),
        _ => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "The body must be application/json.",
        )),
    }
}

/// For a listed origin only. Libraries add headers of their own, so the page may send what it asks
/// for: it needs the key all the same.
fn preflight(request: &Request) -> Response {
    let asked = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS);
    let allowed = asked.cloned().unwrap_or(HeaderValue::from_static("authorization, content-type"));
    let headers = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, POST")),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, allowed),
        (header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_SECONDS)),
    ];
    (StatusCode::NO_CONTENT, headers).into_response()
}

/// Headers of every answer.
fn harden(mut response: Response, origin: Option<&HeaderValue>, id: &str) -> Response {
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert("request-id", id.clone());
        headers.insert("x-request-id", id);
    }
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(header::CACHE_CONTROL).or_insert_with(|| HeaderValue::from_static("no-store"));
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(header::VARY, HeaderValue::from_static("origin"));
    }
    response
}

/// Any path that is not of this port.
pub(crate) async fn unknown_route(request: Request) -> ApiError {
    ApiError::new(
        StatusCode::NOT_FOUND,
        format!("There is no {} {} here.", request.method(), request.uri().path()),
    )
}

/// A known path with a method that it does not take.
pub(crate) async fn wrong_method(request: Request) -> ApiError {
    ApiError::new(
        StatusCode::METHOD_NOT_ALLOWED,
        format!("{} does not take {}.", request.uri().path(), request.method()),
    )
}

#[cfg(test)]
mod tests {
    use axum::Router;
    use axum::body::{Body, to_bytes};
    use axum::routing::get;
    use futures_util::FutureExt;
    use hyper_util::service::TowerToHyperService;

    use super::*;

    /// A route that fails as no route should.
    async fn broken() -> StatusCode {
        panic!("on purpose");
    }

    #[test]
    fn an_address_is_the_same_in_every_form_and_another_one_is_not() {
        for (came_in_at, host, expected) in [
            ("[::ffff:192.168.1.5]:4587", "192.168.1.5:4587", true),
            ("192.168.1.5:4587", "192.168.1.5:4587", true),
            ("[fe80::1%3]:4587", "[fe80::1]:4587", true),
            ("[fd00::5]:4587", "[fd00:0:0::5]:4587", true),
            ("192.168.1.5:4587", "192.168.1.5:4588", false),
            ("192.168.1.5:4587", "192.168.1.6:4587", false),
            ("[fe80::1%3]:4587", "[fe80::2]:4587", false),
        ] {
            let (one, other) = (came_in_at.parse().unwrap(), host.parse().unwrap());
            assert_eq!(is_same(one, other), expected, "{came_in_at} {host}");
        }
    }

    #[tokio::test]
    async fn a_fault_of_this_program_is_answered_in_the_usual_shape() {
        let router = Router::new().route("/", get(broken)).layer(axum::middleware::from_fn(answer));
        let service = TowerToHyperService::new(router);
        let request = Request::get("/").body(Body::empty()).unwrap();
        let answer = hyper::service::Service::call(&service, request).map(Result::unwrap).await;
        assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
        let body = to_bytes(answer.into_body(), 1 << 10).await.unwrap();
        let error: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(error["error"]["type"], "server_error");
    }
}
