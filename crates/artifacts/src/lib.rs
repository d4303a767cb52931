//! From a workspace folder to verified, signed, readable artifacts.
