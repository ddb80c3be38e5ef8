//! How the list of actions becomes requests, responses, commands and methods.
//!
//! The macro `actions!` is called once, in `actions`. Each line of it is one action; everything that
//! depends on the set of actions is written by the macro, so that nothing can be left out.

use std::fmt;
use std::future::Future;

use tokio::sync::oneshot;

use crate::actions::{Request, Response};
use crate::error::NodeError;

/// Where the event loop puts the answer to a command.
pub type Answer<T> = oneshot::Sender<Result<T, NodeError>>;

/// A front end in another process, or in a page. Code of the node's own process may ask for everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrontEnd {
    /// The page of the window.
    Window,
    /// The control socket: the command line and scripts.
    Control,
}

/// One line of the list, as data.
#[derive(Debug, Clone, Copy)]
pub struct Action {
    /// Its name in requests.
    pub name: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Names of its arguments, in order.
    pub arguments: &'static [&'static str],
    /// Who may ask for it.
    pub front_ends: &'static [FrontEnd],
}

/// A response that belongs to another request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node answered {response} to {request}")]
pub struct UnexpectedResponse {
    /// What was asked.
    pub request: &'static str,
    /// What the response is for.
    pub response: &'static str,
}

/// A channel to a node: whoever implements this has all methods of [`crate::NodeCalls`].
pub trait Calls: Sync {
    /// Why a call fails: the node refused, or the channel broke.
    type Error: From<UnexpectedResponse> + Send;

    /// Sends one request and waits for its response.
    fn call(&self, request: Request) -> impl Future<Output = Result<Response, Self::Error>> + Send;
}

impl fmt::Debug for Response {
    /// The action alone: responses hold conversations and keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Response({})", self.action().name)
    }
}

macro_rules! actions {
    (
        $(
            group $Group:ident in $Commands:ident: $about:literal {
                $(
                    $(#[doc = $doc:literal])*
                    $name:ident as $Action:ident (
                        $( $(#[$field:meta])* $argument:ident : $type:ty ),* $(,)?
                    ) -> $(#[$content:meta])* $answer:ty, for [$($front_end:ident),*];
                )*
            }
        )*
        of the handle {
            $(
                $(#[doc = $own_doc:literal])*
                $own_name:ident as $OwnAction:ident by $method:ident
                    -> $own_answer:ty, for [$($own_front_end:ident),*];
            )*
        }
    ) => {
        /// One thing that is asked of a node.
        #[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
        #[serde(tag = "action", rename_all = "snake_case")]
        pub enum Request {
            $($(
                $(#[doc = $doc])*
                $Action { $( $(#[$field])* $argument: $type ),* },
            )*)*
            $(
                $(#[doc = $own_doc])*
                $OwnAction {},
            )*
        }

        /// The answer to a [`Request`] of the same name.
        #[derive(Clone, serde::Serialize, serde::Deserialize)]
        #[cfg_attr(feature = "bindings", derive(ts_rs::TS))]
        #[serde(rename_all = "snake_case")]
        #[allow(clippy::large_enum_variant, reason = "moved a few times for each request")]
        pub enum Response {
            $($(
                $(#[doc = $doc])*
                $Action($(#[$content])* $answer),
            )*)*
            $(
                $(#[doc = $own_doc])*
                $OwnAction($own_answer),
            )*
        }

        /// The content of each response, by action: for TypeScript.
        #[cfg(feature = "bindings")]
        #[derive(Debug, serde::Serialize, ts_rs::TS)]
        #[allow(missing_docs, reason = "the list of actions says it")]
        pub struct Responses {
            $($( $(#[$content])* pub $name: $answer, )*)*
            $( pub $own_name: $own_answer, )*
        }

        $(
            #[doc = $about]
            #[derive(Debug)]
            #[allow(missing_docs, reason = "the list of actions says it")]
            pub enum $Commands {
                $(
                    $(#[doc = $doc])*
                    $Action { $($argument: $type,)* answer: Answer<$answer> },
                )*
            }

            impl From<$Commands> for Command {
                fn from(command: $Commands) -> Self {
                    Self::$Group(command)
                }
            }
        )*

        /// Every action.
        pub const ACTIONS: &[Action] = &[
            $($(
                Action {
                    name: stringify!($name),
                    about: concat!($($doc),*),
                    arguments: &[$(stringify!($argument)),*],
                    front_ends: &[$(FrontEnd::$front_end),*],
                },
            )*)*
            $(
                Action {
                    name: stringify!($own_name),
                    about: concat!($($own_doc),*),
                    arguments: &[],
                    front_ends: &[$(FrontEnd::$own_front_end),*],
                },
            )*
        ];

        /// The place of each action in [`ACTIONS`].
        #[derive(Clone, Copy)]
        #[allow(non_camel_case_types, reason = "the names that actions have in requests")]
        enum Place {
            $($( $name, )*)*
            $( $own_name, )*
        }

        impl Request {
            /// What is asked.
            #[must_use]
            pub fn action(&self) -> &'static Action {
                let place = match self {
                    $($( Self::$Action { .. } => Place::$name, )*)*
                    $( Self::$OwnAction {} => Place::$own_name, )*
                };
                &ACTIONS[place as usize]
            }
        }

        impl Response {
            /// What was asked.
            #[must_use]
            pub fn action(&self) -> &'static Action {
                let place = match self {
                    $($( Self::$Action(_) => Place::$name, )*)*
                    $( Self::$OwnAction(_) => Place::$own_name, )*
                };
                &ACTIONS[place as usize]
            }
        }

        impl NodeHandle {
            $($(
                $(#[doc = $doc])*
                pub async fn $name(&self, $($argument: $type),*) -> Result<$answer, NodeError> {
                    self.ask(|answer| $Commands::$Action { $($argument,)* answer }).await
                }
            )*)*

            /// Answers a request, whoever asks.
            pub(crate) async fn answer(&self, request: Request) -> Result<Response, NodeError> {
                match request {
                    $($(
                        Request::$Action { $($argument),* } => {
                            self.$name($($argument),*).await.map(Response::$Action)
                        }
                    )*)*
                    $(
                        Request::$OwnAction {} => {
                            Ok(Response::$OwnAction(self.$method().await))
                        }
                    )*
                }
            }
        }

        /// The actions as methods, for code that reaches a node through a channel.
        pub trait NodeCalls: Calls {
            $($(
                $(#[doc = $doc])*
                fn $name(
                    &self,
                    $($argument: $type),*
                ) -> impl Future<Output = Result<$answer, Self::Error>> + Send {
                    async move {
                        match self.call(Request::$Action { $($argument),* }).await? {
                            Response::$Action(answer) => Ok(answer),
                            other => Err(unexpected(stringify!($name), &other).into()),
                        }
                    }
                }
            )*)*
            $(
                $(#[doc = $own_doc])*
                fn $own_name(
                    &self,
                ) -> impl Future<Output = Result<$own_answer, Self::Error>> + Send {
                    async move {
                        match self.call(Request::$OwnAction {}).await? {
                            Response::$OwnAction(answer) => Ok(answer),
                            other => Err(unexpected(stringify!($own_name), &other).into()),
                        }
                    }
                }
            )*
        }

        impl<T: Calls> NodeCalls for T {}

        fn unexpected(request: &'static str, response: &Response) -> UnexpectedResponse {
            UnexpectedResponse { request, response: response.action().name }
        }
    };
}

pub(crate) use actions;
