// The local API. Whatever goes wrong becomes a sentence that a person can act on.

export class Refused extends Error {
  constructor(message, code) {
    super(message);
    this.code = code;
  }
}

export async function rpc(method, params) {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  let response;
  try {
    response = await fetch('/app/rpc', { method: 'POST', headers: { 'content-type': 'application/json' }, body });
  } catch {
    throw new Refused('Threadline does not answer. Is it still running? Nothing was sent.', 'OFFLINE');
  }
  const envelope = await response.json().catch(() => undefined);
  if (envelope?.error) throw new Refused(envelope.error.message, envelope.error.data?.code ?? 'UNKNOWN');
  if (!response.ok || !envelope) throw new Refused(`Threadline answered with something odd (HTTP ${response.status}). Reload the page and try again.`, 'UNKNOWN');
  return envelope.result;
}
