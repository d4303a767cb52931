//! The migrations of the tests are compiled in: a change to them has to reach the binary.

fn main() {
    println!("cargo:rerun-if-changed=tests/migrations");
}
