//! Vectors for texts (row 33).

use data_encoding::BASE64;
use nook_api::views::PortRequestKind;
use nook_openai::Limits;
use serde_json::{Value, json};

use crate::kit::{Port, until};

const PATH: &str = "/v1/embeddings";

/// The vectors of an answer, checked for their shape.
async fn vectors(port: &Port, wish: Value) -> Vec<Vec<f32>> {
    let answer = port.post(PATH, &wish).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let answer = answer.json();
    assert_eq!((&answer["object"], &answer["model"]), (&json!("list"), &json!("ember")));
    assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > 0);
    assert_eq!(answer["usage"]["prompt_tokens"], answer["usage"]["total_tokens"]);
    let data = answer["data"].as_array().unwrap();
    let one = |(index, item): (usize, &Value)| {
        assert_eq!((&item["object"], &item["index"]), (&json!("embedding"), &json!(index)));
        match &item["embedding"] {
            Value::String(text) => {
                let bytes = BASE64.decode(text.as_bytes()).unwrap();
                bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
            }
            numbers => serde_json::from_value::<Vec<f32>>(numbers.clone()).unwrap(),
        }
    };
    data.iter().enumerate().map(one).collect()
}

fn alike(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Programs that search documents send a thousand pieces of them at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_for_vectors_may_be_larger_than_one_for_a_reply() {
    let port = Port::open().await;
    let texts = |count: usize, bytes: usize| json!({"input": vec!["a".repeat(bytes); count]});
    for (wish, status, says) in [
        (texts(2049, 2_000), 400, "1 to 2048 inputs"),
        (texts(10, 2 << 20), 413, "larger than 16 MiB"),
    ] {
        let answer = port.post(PATH, &wish).await;
        assert_eq!(answer.status, status, "{says}");
        assert!(answer.text().contains(says), "{}", answer.text());
    }
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn row_33_vectors_come_in_every_shape() {
    let port = Port::open().await;
    let texts = ["The fox ran up the hill.", "The fox ran up a hill.", "Bread is in the oven."];
    let whole = vectors(&port, json!({"model": "ember", "input": texts})).await;
    for vector in &whole {
        assert!((alike(vector, vector) - 1.0).abs() < 1e-4);
    }
    let (near, far) = (alike(&whole[0], &whole[1]), alike(&whole[0], &whole[2]));
    assert!(near > far && near < 0.999_99, "{near} {far}");
    let one =
        vectors(&port, json!({"model": "ember", "input": texts[1], "encoding_format": "float"}))
            .await;
    assert_eq!(one[0], whole[1], "neighbours change nothing");
    let encoded = json!({"model": "ember", "input": texts, "encoding_format": "base64"});
    assert_eq!(vectors(&port, encoded).await, whole);
    let short = vectors(&port, json!({"model": "ember", "input": texts[0], "dimensions": 8})).await;
    assert_eq!(short[0].len(), 8);
    assert!((alike(&short[0], &short[0]) - 1.0).abs() < 1e-4);
    let tokens = vectors(&port, json!({"model": "ember", "input": [[5, 9, 12], [7]]})).await;
    let list = vectors(&port, json!({"model": "ember", "input": [5, 9, 12]})).await;
    assert_eq!((tokens.len(), &tokens[0]), (2, &list[0]));
    // More than one step of the prompt.
    let long = "The fox ran up the hill. ".repeat(20);
    assert_eq!(vectors(&port, json!({"model": "ember", "input": long})).await.len(), 1);
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn embeddings_refuse_by_name() {
    let port = Port::open_with(Limits::USUAL, "").await;
    for (wish, status) in [
        (json!({"input": ""}), 200),
        (json!({"input": []}), 400),
        (json!({"input": [[]]}), 400),
        (json!({"input": 5}), 400),
        (json!({"input": [4_000_000_000_u32]}), 400),
        (json!({"input": "x", "dimensions": 0}), 400),
        (json!({"input": "x", "dimensions": 1_000_000}), 400),
        (json!({"input": "x", "encoding_format": "int8"}), 400),
        (json!({"input": "story ".repeat(20_000)}), 400),
        (json!({"input": "x", "model": "no-such-model"}), 404),
    ] {
        let answer = port.post(PATH, &wish).await;
        // An empty text is its beginning-of-sequence token, where the model has one.
        let fits = answer.status == status || (status == 200 && answer.status == 400);
        assert!(fits, "{}: {}", answer.status, answer.text());
        if answer.status != 200 {
            answer.error_code();
        }
    }
    let long = json!({"input": "story ".repeat(20_000)});
    let answer = port.post(PATH, &long).await;
    assert_eq!(answer.error_code(), "context_length_exceeded");
    port.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_for_embeddings_are_listed_with_tokens_and_status_and_without_content() {
    let port = Port::open().await;
    let secret = "The hedgehog hid the key under the stone.";
    vectors(&port, json!({"model": "Ember", "input": [secret, "Bread."]})).await;
    let house = until(&port.house, |house| house.port.requests.len() == 1).await;
    let listed = &house.port.requests[0];
    assert_eq!(
        (listed.kind, listed.model.as_str(), listed.error.as_deref()),
        (PortRequestKind::Embeddings, "ember", None)
    );
    assert_eq!(listed.devices, std::slice::from_ref(&house.me.name));
    assert!(listed.tokens > 2, "{}", listed.tokens);
    let long = json!({"model": "ember", "input": "hedgehog ".repeat(4_000)});
    assert_eq!(port.post(PATH, &long).await.status, 400);
    let house = until(&port.house, |house| house.port.requests.len() == 2).await;
    assert_eq!(house.port.requests[0].error.as_deref(), Some("400 context_length_exceeded"));
    let unknown = json!({"model": "another", "input": "hedgehog"});
    assert_eq!(port.post(PATH, &unknown).await.status, 404);
    let house = until(&port.house, |house| house.port.requests.len() >= 3).await;
    let listed = &house.port.requests[0];
    assert_eq!((listed.kind, listed.model.as_str()), (PortRequestKind::Embeddings, "another"));
    assert_eq!(listed.error.as_deref(), Some("404 model_not_found"));
    assert!(!serde_json::to_string(&*house).unwrap().contains("hedgehog"));
    port.close().await;
}
