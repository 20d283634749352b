package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"opportunity.internal/sdk/go/opportunity"
)

const wellKnown = "/.well-known/opportunity-history"

// maxDocument bounds what is read, in bytes.
const maxDocument = 1 << 20

var eventID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// values is a flag that may be repeated.
type values []string

func (v *values) String() string         { return strings.Join(*v, " ") }
func (v *values) Set(value string) error { *v = append(*v, value); return nil }

// verification is a command line of verify.
type verification struct {
	url, of, checkpoint string
	keys                opportunity.ProofKeys
}

// verify runs the command verify: it prints what is proved, or returns why nothing is.
func verify(ctx context.Context, args []string, out io.Writer) error {
	v := verification{url: strings.TrimRight(os.Getenv("OPPORTUNITY_URL"), "/")}
	flags := flag.NewFlagSet("verify", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Var((*values)(&v.keys.Log), "key", "")
	flags.Var((*values)(&v.keys.Witnesses), "witness", "")
	flags.StringVar(&v.checkpoint, "checkpoint", "", "")
	for rest := args; len(rest) > 0; rest = flags.Args()[1:] { // flags may follow the id
		if flags.Parse(rest) != nil || (flags.NArg() > 0 && v.of != "") {
			return errUsage
		}
		if v.of = cmp.Or(v.of, flags.Arg(0)); flags.NArg() == 0 {
			break
		}
	}
	inFile := v.of == "-" || strings.ContainsAny(v.of, "./")
	switch {
	case v.of == "":
		return errUsage
	case inFile && len(v.keys.Log) == 0:
		return fmt.Errorf("%w: verifying a file needs --key", errUsage)
	case !inFile && v.url == "":
		return fmt.Errorf("%w: set OPPORTUNITY_URL to the address of the service", errUsage)
	}
	source := ""
	if !inFile && len(v.keys.Log) == 0 {
		source = v.url
	}
	proof, err := v.prove(ctx, inFile)
	if err != nil {
		return err
	}
	printProof(out, proof)
	if source != "" {
		fmt.Fprintf(out, "key       %s, from %s: keep it, and give it with --key from now on\n", v.keys.Log[0], source)
	}
	return nil
}

// prove verifies the proof in a file, or fetches and verifies that of an event.
func (v *verification) prove(ctx context.Context, inFile bool) (p opportunity.Proof, err error) {
	text, checkpoint := "", v.checkpoint
	if inFile {
		if text, err = readFile(v.of); err != nil {
			return p, err
		}
		if p, err = opportunity.VerifyEvent(text, v.keys); err != nil || checkpoint == "" {
			return p, err
		}
	} else if p, err = v.fetched(ctx); err != nil {
		return p, err
	}
	if checkpoint != "" {
		text, err = readFile(checkpoint)
	} else {
		checkpoint = "the checkpoint of " + v.url
		text, err = v.get(ctx, wellKnown+"/log/checkpoint")
	}
	if err != nil {
		return p, err
	}
	size, root, err := opportunity.VerifyCheckpoint(text, v.keys)
	if err == nil && size != p.Size && !inFile { // the proof that leads to it
		if text, err = v.get(ctx, fmt.Sprintf("%s/log/proof/%s?size=%d", wellKnown, p.Event.ID, size)); err == nil {
			p, err = opportunity.VerifyEvent(text, v.keys)
		}
	}
	switch {
	case err != nil:
		return p, err
	case size != p.Size:
		return p, fmt.Errorf("not proved: the proof leads to a checkpoint of %d events, and %s has %d: get the proof with "+
			"?size=%d",
			p.Size, checkpoint, size, size)
	case !bytes.Equal(root, p.Root):
		return p, fmt.Errorf("not proved: the log has signed two histories of %d events: keep the proof and %s, which prove "+
			"it", size, checkpoint)
	}
	return p, nil
}

// fetched fetches the keys, unless they are given, and the event in its proof, and verifies it.
func (v *verification) fetched(ctx context.Context) (p opportunity.Proof, err error) {
	if len(v.keys.Log) == 0 {
		text, err := v.get(ctx, wellKnown)
		if err != nil {
			return p, err
		}
		var document struct{ PublicKeys []string }
		if err := json.Unmarshal([]byte(text), &document); err != nil || len(document.PublicKeys) == 0 {
			return p, fmt.Errorf("%s%s has no keys of a log: check OPPORTUNITY_URL", v.url, wellKnown)
		}
		v.keys.Log = document.PublicKeys
	}
	isEvent := eventID.MatchString(v.of)
	path := "/records/" + url.PathEscape(v.of) + "/event"
	if isEvent {
		path = wellKnown + "/log/proof/" + v.of
	}
	text, err := v.get(ctx, path)
	if missing := new(missingError); errors.As(err, &missing) && !isEvent {
		text, err = v.newest(ctx, missing)
	}
	if err != nil {
		return p, err
	}
	if p, err = opportunity.VerifyEvent(text, v.keys); err != nil {
		return p, err
	}
	if !slices.Contains([]string{p.Event.ID, p.Event.Slug}, v.of) {
		return p, fmt.Errorf("not proved: %s returned event %s of %s instead of %s", v.url, p.Event.ID, p.Event.Slug,
			v.of)
	}
	return p, nil
}

// newest fetches the newest event of a record that is not public without a key, in its proof.
func (v *verification) newest(ctx context.Context, missing error) (string, error) {
	if os.Getenv("OPPORTUNITY_KEY") == "" {
		return "", fmt.Errorf("%w; set OPPORTUNITY_KEY to read the history of the record", missing)
	}
	client, err := newClient(io.Discard)
	if err != nil {
		return "", err
	}
	for event, err := range client.History(ctx, v.of, opportunity.HistoryFilter{PageSize: 1}) {
		if err != nil {
			return "", err
		}
		return client.EventProof(ctx, event.ID)
	}
	return "", fmt.Errorf("%s has no event: no check of it was recorded yet", v.of)
}

// missingError is a response 404.
type missingError struct{ address string }

func (e *missingError) Error() string { return "nothing public at " + e.address }

// get fetches a public document of the installation. The request has no key.
func (v *verification) get(ctx context.Context, path string) (string, error) {
	address := v.url + path
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	req.Header.Set("User-Agent", userAgent)
	resp, err := (&http.Client{Timeout: 30 * time.Second}).Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusNotFound:
		return "", &missingError{address}
	default:
		return "", fmt.Errorf("%s returned %s, want 200 OK", address, resp.Status)
	}
	return bounded(address, resp.Body)
}

// readFile reads a file, or standard input if its name is "-".
func readFile(name string) (string, error) {
	if name == "-" {
		return bounded(name, os.Stdin)
	}
	in, err := os.Open(name) //nolint:gosec // the file that the user names
	if err != nil {
		return "", err
	}
	defer in.Close()
	return bounded(name, in)
}

func bounded(name string, in io.Reader) (string, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxDocument)
	}
	return string(text), err
}

func printProof(out io.Writer, p opportunity.Proof) {
	fmt.Fprintf(out, "proved: the event is number %d of the %d events that %s has signed, and has not changed since\n",
		p.Index+1, p.Size, p.Origin)
	e := p.Event
	fmt.Fprintf(out, "event     %s, %s of %s: %s\n", e.ID, e.CheckType, e.Slug, e.Outcome)
	fmt.Fprintf(out, "checked   %s\n", e.CheckedAt.Format(time.RFC3339Nano))
	if e.Note != "" {
		fmt.Fprintf(out, "note      %q\n", e.Note)
	}
	for _, source := range e.SourceURLs {
		fmt.Fprintf(out, "source    %q\n", source)
	}
	fmt.Fprintf(out, "recorded  %s, says the log\n", p.RecordedAt.Format(time.RFC3339Nano))
	for _, seen := range p.Witnesses {
		fmt.Fprintf(out, "seen      %s, by %s\n", seen.At.Format(time.RFC3339), seen.Name)
	}
	if len(p.Witnesses) == 0 {
		fmt.Fprintln(out, "seen      by no witness that you named: the log alone vouches for the time, and can show others "+
			"another history")
	}
	fmt.Fprintln(out, "This does not prove that the event is true. It proves what was recorded, and when.")
}
