//! The scripted agent as a program. See the library's `scripted_agent` for what it understands.

fn main() {
    threadline_e2e::scripted_agent::run();
}
