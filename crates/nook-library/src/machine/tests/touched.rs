//! Models whose file somebody touches while the node runs, and between two starts.

use std::fs::{self, OpenOptions};

use nook_api::views::Trouble;

use super::*;
use crate::rereading::{Reread, RereadJob, reread};

/// What a look says once it has read all headers.
const READ: [&str; 3] = ["problems of models: 0", "problems of models-folder: 0", "models changed"];

impl Scene {
    /// The job that reads a file again, done for real; what is to be done then.
    fn rereads(&mut self) -> Vec<String> {
        let is_it = |job: &Job| matches!(job, Job::Reread(_));
        let at = self.jobs.iter().position(is_it).expect("no file is read again");
        let Job::Reread(RereadJob { model, path, stop }) = self.jobs.remove(at) else {
            panic!("another job")
        };
        self.on(LibraryEvent::Reread { model, reread: reread(&path, model, &stop) })
    }

    /// A second passes; whether a file is read again from then on.
    fn begins_to_read(&mut self) -> bool {
        let begins = self.on(LibraryEvent::Tick).contains(&"read a file again".to_owned());
        self.look(false);
        begins
    }

    fn troubles(&self) -> Vec<Trouble> {
        let found = reading::read(self.library.library.models(), false);
        found.broken.into_iter().filter_map(|view| view.trouble).collect()
    }

    /// The next start of the program.
    fn starts_again(&mut self) -> Vec<String> {
        let (traffic, lifetime) = (Traffic::default(), CancellationToken::new());
        self.library = ModelLibrary::open(&self.home, None, 0, traffic, lifetime).unwrap();
        self.jobs.clear();
        self.on(LibraryEvent::Started)
    }
}

/// Writes these bytes and sets the time of modification back.
fn rewrite(file: &Path, bytes: &[u8]) {
    let modified = fs::metadata(file).unwrap().modified().unwrap();
    fs::write(file, bytes).unwrap();
    OpenOptions::new().write(true).open(file).unwrap().set_modified(modified).unwrap();
}

#[cfg(unix)]
#[test]
fn m6_a_file_that_was_touched_is_read_again_and_its_model_comes_back_by_itself() {
    let mut scene = Scene::new();
    let file = scene.model_file();
    let bytes = fs::read(&file).unwrap();
    scene.import(&file, "stories");
    assert_eq!(scene.look(false), [""; 0], "nobody touched it");
    rewrite(&file, &bytes);
    assert_eq!(scene.look(false), ["look at the folder, all headers"]);
    let left_out = ["problems of models: 1", "problems of models-folder: 0", "models changed"];
    assert_eq!(scene.look(true), left_out);
    let refused = scene.library.model("stories").unwrap_err();
    assert!(refused.sentence.contains("all of it is read first"), "{}", refused.sentence);
    let named = Trouble::ModelFileBeingRead {
        model: "stories".to_owned(),
        file: fs::canonicalize(&file).unwrap().display().to_string(),
    };
    assert_eq!(scene.troubles(), [named]);

    assert!(scene.begins_to_read());
    assert!(!scene.begins_to_read(), "once");
    scene.rereads();
    assert_eq!(scene.look(true), READ);
    assert!(scene.library.model("stories").is_ok());
    assert_eq!(scene.look(false), [""; 0], "and that is noted");
    assert_eq!(scene.starts_again().len(), 2, "for the next start too");
    assert!(scene.library.model("stories").is_ok());
}

#[cfg(unix)]
#[test]
fn m6_a_file_that_is_another_one_is_reported_until_it_is_put_right() {
    let mut scene = Scene::new();
    let file = scene.model_file();
    let bytes = fs::read(&file).unwrap();
    scene.import(&file, "stories");
    let mut other = bytes.clone();
    *other.last_mut().unwrap() ^= 1;
    for is_restarted in [false, true] {
        rewrite(&file, &other);
        let named = Trouble::ModelFileChanged {
            model: "stories".to_owned(),
            file: fs::canonicalize(&file).unwrap().display().to_string(),
        };
        if is_restarted {
            let begun = scene.starts_again();
            assert!(begun.contains(&"problems of models: 1".to_owned()), "{begun:?}");
        } else {
            assert_eq!(scene.look(false), ["look at the folder, all headers"]);
            scene.look(true);
            assert!(scene.begins_to_read());
        }
        assert!(scene.library.model("stories").is_err(), "while it is read");
        scene.rereads();
        assert_eq!(scene.look(true)[0], "problems of models: 1");
        assert_eq!(scene.troubles(), [named]);
        let refused = scene.library.model("stories").unwrap_err();
        assert!(refused.sentence.contains("import it again"), "{}", refused.sentence);
        // Once: it is the same file still.
        assert!(!scene.begins_to_read());
        assert_eq!(scene.look(false), [""; 0]);

        rewrite(&file, &bytes);
        assert_eq!(scene.look(false), ["look at the folder, all headers"]);
        scene.look(true);
        assert!(scene.begins_to_read());
        scene.rereads();
        assert_eq!(scene.look(true), READ, "it is what it was");
        assert!(scene.library.model("stories").is_ok());
    }
}

#[cfg(unix)]
#[test]
fn m6_a_file_that_is_still_written_rests_before_it_is_read_once_more() {
    let mut scene = Scene::new();
    let file = scene.model_file();
    let bytes = fs::read(&file).unwrap();
    scene.import(&file, "stories");
    let model = scene.library.model("stories").unwrap().digest();
    rewrite(&file, &bytes);
    scene.look(true);
    assert!(scene.begins_to_read());
    let reread = Reread::Unread("it changed while it was read".to_owned());
    scene.on(LibraryEvent::Reread { model, reread });
    scene.look(true);
    assert!(!scene.begins_to_read());
    scene.seconds += 60;
    assert!(scene.begins_to_read());
}

#[test]
fn m1_a_file_that_is_damaged_cut_longer_or_another_models_is_left_out_and_named() {
    const EMBER: &str = "../nook-store/ember/ember-q8_0.gguf";
    let mut scene = Scene::new();
    let file = scene.model_file();
    let bytes = fs::read(&file).unwrap();
    scene.import(&file, "stories");
    let mut flipped = bytes.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let longer = [&bytes[..], b"x"].concat();
    let other = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(EMBER)).unwrap();
    let named = Trouble::ModelFileChanged {
        model: "stories".to_owned(),
        file: fs::canonicalize(&file).unwrap().display().to_string(),
    };
    for (what, wrong) in [
        ("a bit is flipped", &flipped[..]),
        ("cut off", &bytes[..middle]),
        ("longer", &longer),
        ("another model", &other),
    ] {
        for (bytes, troubles) in [(wrong, std::slice::from_ref(&named)), (&bytes[..], &[])] {
            fs::write(&file, bytes).unwrap();
            assert_eq!(scene.look(false), ["look at the folder, all headers"], "{what}");
            scene.look(true);
            if scene.begins_to_read() {
                scene.rereads();
                scene.look(true);
            }
            assert_eq!(scene.troubles(), troubles, "{what}");
            assert_eq!(scene.library.model("stories").is_ok(), troubles.is_empty(), "{what}");
        }
    }
}
