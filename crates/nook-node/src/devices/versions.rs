//! What the owner is told where two devices share no protocol version.

use nook_wire::{Outdated, VersionMismatch};

use nook_api::views::{DeviceTrouble, ToUpdate, TroubleView};

/// A device speaks no common protocol version: who has to update, where that is known.
pub(super) fn trouble(name: &str, versions: Option<VersionMismatch>) -> TroubleView {
    let Some(versions) = versions else {
        let words = format!(
            "{name} runs a version of Inglenook that this one does not understand. Update the older one."
        );
        return TroubleView::with(name, words, DeviceTrouble::OtherVersion);
    };
    let (ours, theirs) = (versions.ours.to_string(), versions.theirs.to_string());
    let (update, whose) = match versions.outdated() {
        Outdated::Ours => (ToUpdate::This, "this computer"),
        Outdated::Theirs => (ToUpdate::Other, name),
    };
    let words = format!(
        "{name} and this computer run versions of Inglenook that do not understand each other (protocol \
         {theirs} there, {ours} here). Update Inglenook on {whose}."
    );
    TroubleView::with(name, words, DeviceTrouble::Outdated { update, ours, theirs })
}

#[cfg(test)]
mod tests {
    use nook_wire::ProtocolRange;

    use super::*;

    /// What is told about a device that speaks these versions.
    fn told(min: u16, max: u16) -> TroubleView {
        let theirs = ProtocolRange::new(min, max).unwrap();
        let versions = ProtocolRange::SPOKEN.common(theirs).unwrap_err();
        trouble("attic", Some(versions))
    }

    #[test]
    fn the_computer_to_update_is_named_with_both_versions() {
        for (versions, update, range, whose) in [
            ((0, 0), ToUpdate::Other, "0", "attic"),
            ((3, 4), ToUpdate::This, "3\u{2013}4", "this computer"),
        ] {
            let told = told(versions.0, versions.1);
            let ours = ProtocolRange::SPOKEN.to_string();
            let expected =
                format!("(protocol {range} there, {ours} here). Update Inglenook on {whose}.");
            assert!(told.sentence.ends_with(&expected), "{}", told.sentence);
            let outdated = DeviceTrouble::Outdated { update, ours, theirs: range.to_owned() };
            assert_eq!(told, TroubleView::with("attic", told.sentence.clone(), outdated));
        }
        let unknown = trouble("attic", None);
        assert!(unknown.sentence.ends_with("Update the older one."), "{}", unknown.sentence);
    }
}
