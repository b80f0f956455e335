//! Further hosts to scrape, where this process has their metrics: a list as Prometheus' HTTP service
//! discovery reads it, and a page for each.

use std::sync::Arc;

use actix_web::http::StatusCode;
use actix_web::web;
use actix_web::{HttpRequest, HttpResponse};
use serde_json::json;

use super::access::host;
use super::responses::{fresh, resource, text};
use super::routes::preferred_form;
use netto_metrics::prometheus::Targets;

/// The paths of these hosts.
pub(super) fn routes(config: &mut web::ServiceConfig, targets: &Arc<dyn Targets>) {
    let (listed, shown) = (targets.clone(), targets.clone());
    let list = move |request: HttpRequest| {
        let targets = listed.clone();
        async move { list(&request, &*targets) }
    };
    let page = move |request, name| page(request, name, shown.clone());
    config
        .service(resource("/hosts", list))
        .service(resource("/hosts/{name}/metrics", page));
}

/// All of them have the address by which this list was asked for.
fn list(request: &HttpRequest, targets: &dyn Targets) -> HttpResponse {
    let address = host(request.headers());
    let target = |name: &str| {
        json!({
            "targets": [address],
            "labels": { "instance": name, "__metrics_path__": format!("/hosts/{name}/metrics") },
        })
    };
    let all: Vec<_> = targets.names().into_iter().map(target).collect();
    fresh(StatusCode::OK, "application/json").json(all)
}

async fn page(
    request: HttpRequest,
    name: web::Path<String>,
    targets: Arc<dyn Targets>,
) -> HttpResponse {
    let form = preferred_form(&request);
    match web::block(move || targets.page(&name, form)).await {
        Ok(Some(page)) => fresh(StatusCode::OK, form.content_type()).body(page),
        Ok(None) => text(StatusCode::NOT_FOUND, "no such host; /hosts has their list"),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error),
    }
}
