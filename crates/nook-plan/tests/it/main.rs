//! The planner's promises, on households made by hand and drawn ones.

mod choosing;
mod cover;
mod learning;
mod placing;
mod planning;
mod route;
mod rows;
