// Package e2e tests the whole API from outside, over HTTP, with the programs that are shipped:
// `opportunity up`, and a stack of one process for each service, with three gateways, on a real
// Postgres and a real Redis.
//
// Every response under /api is validated against the OpenAPI description, without unknown fields.
//
// The programs are built once for a run, or taken from the directory in OPPORTUNITY_E2E_BIN. The
// stores come from scripts/with-stores. With OPPORTUNITY_E2E_URL, which must be its
// OPPORTUNITY_PUBLIC_URL, OPPORTUNITY_E2E_ADMIN_URL and OPPORTUNITY_OPERATOR_TOKEN the tests that
// need no process of their own, and only they, run against a deployment that is already there and
// holds the sample.
package e2e
