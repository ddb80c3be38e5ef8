//! `GET /v1/models` and `GET /v1/models/{id}`.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use nook_api::views::{HouseholdView, ModelView};
use nook_base::ErrorCode;
use serde_json::{Value, json};

use crate::answer::moment;
use crate::caller::Caller;
use crate::dialect::Dialect;
use crate::error::{ApiError, from_code};
use crate::port::Port;
use crate::shapes::{Model, Models};

/// All models of this device.
pub(crate) async fn list(
    State(port): State<Port>,
    Extension(caller): Extension<Caller>,
) -> Response {
    let view = port.house.now();
    let models = view.models.iter();
    match caller.dialect {
        Dialect::Anthropic => {
            let id = |model: Option<&ModelView>| model.map(|model| model.name.clone());
            Json(json!({
                "first_id": id(view.models.first()),
                "last_id": id(view.models.last()),
                "has_more": false,
                "data": models.map(anthropics).collect::<Vec<_>>(),
            }))
            .into_response()
        }
        _ => Json(Models { object: "list", data: models.map(entry).collect() }).into_response(),
    }
}

/// One model; ids may hold slashes.
pub(crate) async fn one(
    State(port): State<Port>,
    Extension(caller): Extension<Caller>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Response, ApiError> {
    let Path(id) =
        id.map_err(|_| ApiError::new(StatusCode::BAD_REQUEST, "The path is not text in UTF-8."))?;
    let view = port.house.now();
    find(&view, &id).map(|model| match caller.dialect {
        Dialect::Anthropic => Json(anthropics(model)).into_response(),
        _ => Json(entry(model)).into_response(),
    })
}

/// A model as Anthropic's clients know one.
fn anthropics(model: &ModelView) -> Value {
    json!({
        "type": "model",
        "id": model.name,
        "display_name": model.title,
        "created_at": moment(model.added),
        "max_input_tokens": model.context_length,
    })
}

/// A model by the names that requests may give it: exact, then ignoring case, then a unique
/// beginning.
pub(crate) fn find<'a>(view: &'a HouseholdView, name: &str) -> Result<&'a ModelView, ApiError> {
    let models = || view.models.iter();
    let begins = |model: &&ModelView| {
        let beginning = model.name.get(..name.len());
        !name.is_empty() && beginning.is_some_and(|it| it.eq_ignore_ascii_case(name))
    };
    let mut beginning = models().filter(begins);
    let unique = beginning.next().filter(|_| beginning.next().is_none());
    models()
        .find(|model| model.name == name)
        .or_else(|| models().find(|model| model.name.eq_ignore_ascii_case(name)))
        .or(unique)
        .ok_or_else(|| not_found(view, &format!("There is no model {name:?} here.")))
}

/// The complaint about a model that is not here, with the names of those that are.
fn not_found(view: &HouseholdView, sentence: &str) -> ApiError {
    from_code(ErrorCode::NotFound, format!("{sentence} {}", known(&view.models)))
}

/// Names the models that are here.
fn known(models: &[ModelView]) -> String {
    let names: Vec<_> = models.iter().map(|model| model.name.as_str()).collect();
    match names.as_slice() {
        [] => "There is no model here yet.".to_owned(),
        names => format!("There are: {}.", names.join(", ")),
    }
}

fn entry(model: &ModelView) -> Model {
    Model {
        id: model.name.clone(),
        object: "model",
        created: model.added,
        owned_by: "inglenook",
        context_length: model.context_length,
        max_model_len: model.context_length,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_no_model_is_here_none_is_named() {
        assert_eq!(known(&[]), "There is no model here yet.");
    }
}
