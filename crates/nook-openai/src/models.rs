//! `GET /v1/models` and `GET /v1/models/{id}`.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use nook_api::views::{HouseholdView, ModelView};
use nook_base::ErrorCode;

use crate::error::{ApiError, from_code};
use crate::port::Port;
use crate::shapes::{Model, Models};

/// All models of this device.
pub(crate) async fn list(State(port): State<Port>) -> Json<Models> {
    let view = port.house.now();
    Json(Models { object: "list", data: view.models.iter().map(entry).collect() })
}

/// One model; ids may hold slashes.
pub(crate) async fn one(
    State(port): State<Port>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Model>, ApiError> {
    let Path(id) =
        id.map_err(|_| ApiError::new(StatusCode::BAD_REQUEST, "The path is not text in UTF-8."))?;
    let view = port.house.now();
    let found = view.models.iter().find(|model| model.name == id);
    found.map(|model| Json(entry(model))).ok_or_else(|| {
        let sentence = format!("There is no model {id:?} here.");
        not_found(&view, &sentence)
    })
}

/// The complaint about a model that is not here, with the names of those that are.
pub(crate) fn not_found(view: &HouseholdView, sentence: &str) -> ApiError {
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
