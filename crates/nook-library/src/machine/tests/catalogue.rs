//! A list of models that came from outside.

use nook_fetch::Catalogue;

use super::*;

/// The list that ships, as a program of that hour would send it, with this in place of that.
fn list(written: &str, from: &str, to: &str) -> Catalogue {
    let text = include_str!("../../../../nook-fetch/src/catalogue/built_in.toml");
    let line = text.lines().find(|line| line.starts_with("written")).unwrap();
    assert!(text.contains(from));
    let text = text.replacen(line, &format!("written = {written}"), 1).replacen(from, to, 1);
    Catalogue::read(&text).unwrap()
}

impl Scene {
    fn come(&mut self, list: Catalogue) -> Vec<String> {
        self.on(LibraryEvent::CatalogueCame(Box::new(list)))
    }

    fn ids(&self) -> Vec<&str> {
        self.library.catalogue().entries().iter().map(|entry| entry.id.as_str()).collect()
    }
}

const LATER: &str = "2096-01-01T00:00:00Z";

#[test]
fn this_program_runs_every_model_of_the_list_that_it_brings() {
    let mut scene = Scene::new();
    let before = scene.ids().len();
    assert!(scene.library.catalogue().is_built_in());
    assert_eq!(scene.come(list(LATER, "rank = 15", "rank = 15")), ["show"]);
    assert!(!scene.library.catalogue().is_built_in());
    assert_eq!(scene.ids().len(), before);
}

#[test]
fn a_newer_list_replaces_the_one_in_use_and_an_older_one_does_not() {
    let mut scene = Scene::new();
    let renamed = |written| list(written, "\"lfm2.5-1.2b\"", "\"another\"");
    assert!(scene.come(renamed("2001-01-01T00:00:00Z")).is_empty());
    assert!(scene.library.catalogue().is_built_in() && scene.ids().contains(&"lfm2.5-1.2b"));
    scene.come(renamed(LATER));
    assert!(scene.ids().contains(&"another") && !scene.ids().contains(&"lfm2.5-1.2b"));
    let (begun, _) = scene.pull("another");
    assert!(begun.iter().any(|line| line.starts_with("fetch")), "{begun:?}");
}

#[test]
fn what_this_version_does_not_run_is_left_out_and_a_list_of_such_models_alone_is_not_taken() {
    let mut scene = Scene::new();
    let ids = scene.ids().len();
    scene.come(list(LATER, "architecture = \"llama\"", "architecture = \"qwen99\""));
    assert_eq!(scene.ids().len(), ids - 1);
    let later = "2097-01-01T00:00:00Z";
    scene.come(list(later, "rank = 15", "rank = 15\nsince = \"999.0.0\""));
    assert_eq!(scene.ids().len(), ids - 1);
    assert!(!scene.ids().contains(&"smollm2-360m"));
    let now = "2098-01-01T00:00:00Z";
    scene.come(list(now, "rank = 15", &format!("rank = 15\nsince = \"{}\"", nook_base::VERSION)));
    assert_eq!(scene.ids().len(), ids);
    let none = list("2099-01-01T00:00:00Z", "rank = 15", "rank = 15")
        .only(|entry| entry.architecture == "mistral3");
    assert_eq!(scene.come(none), ["show"]);
    let text = include_str!("../../../../nook-fetch/src/catalogue/built_in.toml");
    let line = text.lines().find(|line| line.starts_with("written")).unwrap();
    let text = text.replacen(line, "written = 2100-01-01T00:00:00Z", 1);
    let odd = Catalogue::read(&text.replace("architecture = \"", "architecture = \"x-")).unwrap();
    assert!(scene.come(odd).is_empty());
    assert_eq!(scene.ids(), ["ministral-3-8b"]);
}
