//! HTTP, WebSocket and SSE in front of the engine.
