//! Asks the local port one question, as another program on this computer would.
//!
//! One fixed request and the first line of the answer need no client library.

use std::net::SocketAddr;
use std::time::Duration;

use nook_api::views::{Problem, Wording};
use nook_base::ErrorCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longest wait for the answer; the port lists models without touching one.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// The answer's first line is shorter than this; the rest is not read.
const FIRST_LINE_BYTES_MAX: usize = 64;

/// The status with which the port at `address` answers to `GET /v1/models`.
pub(crate) async fn ask(address: SocketAddr, key: &str) -> Result<u16, Problem> {
    match tokio::time::timeout(ANSWER_LIMIT, status(address, key)).await {
        Ok(Ok(Some(status))) => Ok(status),
        Ok(Ok(None)) => {
            Err(problem("Something else than Inglenook answers there.", Wording::PortForeign))
        }
        Ok(Err(error)) => {
            Err(problem(format!("Nothing answers there: {error}."), Wording::PortSilent))
        }
        Err(_) => Err(problem("Nothing has answered there for five seconds.", Wording::PortSilent)),
    }
}

async fn status(address: SocketAddr, key: &str) -> std::io::Result<Option<u16>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!(
        "GET /v1/models HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\n\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut line = Vec::new();
    stream.take(FIRST_LINE_BYTES_MAX as u64).read_to_end(&mut line).await?;
    Ok(status_of(&line))
}

/// The status in `HTTP/1.1 200 OK`.
fn status_of(line: &[u8]) -> Option<u16> {
    let mut words = line.strip_prefix(b"HTTP/1.")?.split(|byte| *byte == b' ');
    words.next();
    std::str::from_utf8(words.next()?).ok()?.parse().ok()
}

fn problem(sentence: impl Into<String>, wording: Wording) -> Problem {
    let code = ErrorCode::NotFound.name().to_owned();
    Problem { code, sentence: sentence.into(), wording: Some(wording) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    #[test]
    fn only_a_status_line_has_a_status() {
        assert_eq!(status_of(b"HTTP/1.1 200 OK\r\n"), Some(200));
        assert_eq!(status_of(b"HTTP/1.0 401 "), Some(401));
        for line in [&b""[..], b"SSH-2.0-x", b"HTTP/1.1", b"HTTP/1.1 2x0 OK", b"HTTP/1.1 999999 "] {
            assert_eq!(status_of(line), None);
        }
    }

    #[tokio::test]
    async fn the_key_is_presented_and_the_status_comes_back() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = vec![0; 256];
            let read = stream.read(&mut asked).await.unwrap();
            stream.write_all(b"HTTP/1.1 401 Unauthorized\r\n\r\n").await.unwrap();
            String::from_utf8(asked[..read].to_vec()).unwrap()
        };
        let (status, asked) = tokio::join!(ask(address, "nook-x"), serve);
        assert_eq!(status.unwrap(), 401);
        assert!(asked.contains("Authorization: Bearer nook-x\r\n"), "{asked}");
        drop(listener);
        assert!(ask(address, "nook-x").await.is_err(), "nobody listens there any more");
    }
}
