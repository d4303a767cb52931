// The part of the gateway's plugin interface that is used here, as seen on OpenClaw 2026.9.6.

import type { IncomingMessage, ServerResponse } from "node:http";

export interface Logger {
  info(message: string): void;
  warn(message: string): void;
  error(message: string): void;
}

export interface SessionEntry {
  sessionId?: string;
  updatedAt?: number;
  status?: string;
  lastRunId?: string;
  pluginExtensions?: Record<string, unknown>;
  [field: string]: unknown;
}

export interface GatewayRequest {
  params?: unknown;
  signal?: AbortSignal;
  context?: unknown;
  client?: unknown;
  respond(ok: boolean, payload?: unknown, error?: unknown): void;
}

export interface AgentEvent {
  runId: string;
  stream: string;
  ts?: number;
  sessionKey?: string;
  agentId?: string;
  data?: Record<string, unknown>;
}

export interface TaskRuns {
  resolve(token: string): Promise<Record<string, unknown> | undefined | null>;
  get(token: string): Promise<Record<string, unknown> | undefined | null>;
  findLatest(): Promise<Record<string, unknown> | undefined | null>;
}

export interface ToolContext {
  sessionKey?: string;
  runId?: string;
  agentId?: string;
  workspaceDir?: string;
}

export interface Tool {
  name: string;
  label: string;
  description: string;
  parameters: Record<string, unknown>;
  execute(callId: string, params: unknown, signal?: AbortSignal): Promise<{ content: { type: "text"; text: string }[]; details?: unknown }>;
}

export interface Runtime {
  version?: string;
  agent: {
    resolveAgentWorkspaceDir(config: unknown, agentId: string): string;
    session: {
      getSessionEntry(of: { sessionKey: string; agentId?: string }): SessionEntry | undefined;
      listSessionEntries(of: { agentId: string; readOnly?: boolean }): { sessionKey: string; entry: SessionEntry }[];
      patchSessionEntry(of: {
        sessionKey: string;
        agentId?: string;
        update(entry: SessionEntry): Partial<SessionEntry> | null;
        fallbackEntry?: SessionEntry;
        preserveActivity?: boolean;
      }): Promise<SessionEntry | null>;
    };
  };
  config: { current(): unknown };
  state: { resolveStateDir(): string };
  subagent: {
    waitForRun(of: { runId: string; timeoutMs?: number }): Promise<Record<string, unknown>>;
    getSessionMessages(of: { sessionKey: string; limit?: number }): Promise<{ messages?: unknown[] }>;
  };
  tasks: { async: { runs: { bindSession(of: { sessionKey: string }): TaskRuns } } };
}

export interface Api {
  id: string;
  rootDir?: string;
  registrationMode?: string;
  pluginConfig?: Record<string, unknown>;
  config?: unknown;
  logger: Logger;
  runtime: Runtime;
  on(hook: string, handler: (event: any, context: any) => unknown): void;
  registerGatewayMethod(name: string, handler: (request: GatewayRequest) => unknown, options: { scope: "operator.read" | "operator.write" }): void;
  registerHttpRoute?(route: {
    path: string;
    auth: "gateway" | "plugin";
    match?: "exact" | "prefix";
    handler(request: IncomingMessage, response: ServerResponse): Promise<boolean> | boolean;
  }): void;
  registerTool?(tool: (context: ToolContext) => Tool | null, options: { name: string; optional?: boolean }): void;
  session?: { state?: { registerSessionExtension?(extension: { namespace: string; description: string; project(of: { state: unknown }): unknown }): void } };
  agent?: { events?: { registerAgentEventSubscription?(subscription: { id: string; description?: string; streams?: string[]; handle(event: AgentEvent): void | Promise<void> }): void } };
  lifecycle?: { onDispose?(cleanup: () => void | Promise<void>): unknown };
}
