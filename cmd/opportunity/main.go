// Command opportunity runs the whole API in one process and operates running deployments.
//
// newRoot combines the commands: package up has up and backup, package desk the curation desk, and
// package verbs the operators' commands. For all of them, usage.go checks arguments against the
// usage line and puts errors in terms of arguments and flags, and run prints errors, as text or as
// JSON, and chooses the exit code.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C kills the process; the first stops it gracefully
	code := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
