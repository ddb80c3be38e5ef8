//! Commands of front ends, handled one at a time by the event loop.
//!
//! Each arm answers at once, or hands its answer on to whatever takes longer. An answer that nobody
//! waits for any more is dropped.

use nook_api::{ChatCommand, Command, PortCommand, SettingCommand, SharingCommand};

use crate::chats::ended_by;
use crate::devices::DeviceEvent;
use crate::state::State;
use nook_host::HostEvent;
use nook_library::LibraryEvent;
use nook_requester::Event;
use tokio::sync::oneshot;

impl State {
    /// Handles one command. Whoever wants the node to leave waits for what comes back.
    pub(crate) fn dispatch(&mut self, command: Command) -> Option<oneshot::Sender<()>> {
        match command {
            Command::Sharing(command) => self.dispatch_sharing(command),
            Command::Devices(command) => self.tell_devices(DeviceEvent::Asked(command)),
            Command::Models(command) => self.tell_library(LibraryEvent::Asked(command)),
            Command::Chats(command) => self.dispatch_chats(command),
            Command::Settings(command) => self.dispatch_settings(command),
            Command::Port(command) => self.dispatch_port(command),
            Command::Generate { asker, request, answer } => {
                self.generate((asker, request), (None, None), answer);
            }
            Command::Count { request, answer } => self.count(request, answer),
            Command::Embed { request, answer } => self.embed(request, answer),
            Command::Say { turn, answer } => self.say(turn, answer),
            Command::NotePortRequest(request) => self.note_port_request(request),
            Command::PortSettings { answer } => drop(answer.send(Ok(self.port_settings()))),
            Command::PortState { on, base_url, problem, answer } => {
                (self.port.on, self.port.base_url, self.port.problem) = (on, base_url, problem);
                self.answer(answer, Ok(()));
            }
            Command::ShutDown(done) => return Some(done),
        }
        None
    }

    /// Answers a command that changed something. Whoever asked looks at the view next, so the view
    /// shows the change before the answer is out.
    pub(crate) fn answer<T>(&self, answer: oneshot::Sender<T>, outcome: T) {
        self.publish();
        // Nobody may be waiting for it any more.
        let _ = answer.send(outcome);
    }

    fn dispatch_sharing(&mut self, command: SharingCommand) {
        use SharingCommand as Of;
        match command {
            Of::SetSharing { sharing, answer } => {
                let done = self.set_sharing(sharing);
                self.answer(answer, done);
            }
            Of::PauseSharing { span, answer } => {
                let done = self.pause_sharing(span);
                self.answer(answer, done);
            }
            Of::ResumeSharing { answer } => {
                let done = self.resume_sharing();
                self.answer(answer, done);
            }
            Of::FreeMemory { answer } => {
                let done = self.free_memory();
                self.answer(answer, done);
            }
            Of::Audit { answer } => drop(answer.send(Ok(self.audit_view()))),
            Of::ClearAudit { answer } => {
                self.tell_host(HostEvent::AuditCleared);
                self.answer(answer, Ok(()));
            }
        }
    }

    fn dispatch_chats(&mut self, command: ChatCommand) {
        if let Some(conversation) = ended_by(&command) {
            // What its replies left to go on with goes with it.
            self.ask(Event::ChatEnded(conversation));
        }
        self.chats.dispatch(command, &self.naming());
    }

    fn dispatch_settings(&mut self, command: SettingCommand) {
        use SettingCommand as Of;
        match command {
            Of::ChangeSetting { setting, answer } => {
                let done = self.change_setting(setting);
                self.answer(answer, done);
            }
            Of::SetName { name, answer } => {
                let done = self.set_name(&name);
                self.answer(answer, done);
            }
            Of::Doctor { answer } => self.examine_gpus(self.examine(), answer),
            Of::Pipeline { answer } => drop(answer.send(Ok(self.pipeline_view()))),
            Of::Privacy { answer } => self.show_privacy(answer),
            Of::KeepPrivacy { model, figures, answer } => {
                let kept = self.keep_privacy(&model, figures);
                self.answer(answer, kept);
            }
            Of::Vitals { answer } => self.count_vitals(answer),
            Of::LookForUpdate { answer } => {
                let done = self.look_for_update();
                self.answer(answer, done);
            }
            Of::InstallUpdate { answer } => {
                let done = self.install_update();
                self.answer(answer, done);
            }
            Of::BringUpdate { sha256, answer } => self.bring_update(&sha256, answer),
            Of::RestartWhenQuiet { answer } => {
                drop(answer.send(self.restart_when_quiet()));
            }
            Of::CallOffRestart { answer } => {
                self.restart.call_off();
                self.answer(answer, Ok(()));
            }
            Of::StartedAs { answer } => drop(answer.send(Ok(self.restart.started_as()))),
            Of::HasComeUp { answer } => drop(answer.send(Ok(self.restart.has_come_up()))),
        }
    }

    fn dispatch_port(&mut self, command: PortCommand) {
        use PortCommand as Of;
        match command {
            Of::PortKey { answer } => drop(answer.send(Ok(self.port_key()))),
            Of::RenewPortKey { answer } => {
                let done = self.renew_port_key();
                self.answer(answer, done);
            }
            Of::AddPortKey { name, answer } => {
                let done = self.add_port_key(&name);
                self.answer(answer, done);
            }
            Of::RemovePortKey { name, answer } => {
                let done = self.remove_port_key(&name);
                self.answer(answer, done);
            }
        }
    }
}
