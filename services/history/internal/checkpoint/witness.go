package checkpoint

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/pkg/cosignature"
)

// Witness is a witness that cosigns the checkpoints of the log (C2SP tlog-witness).
type Witness struct {
	cosignature.Verifier

	url    string // prefix of its submissions and of its checkpoints, without a trailing slash
	client *http.Client
}

const (
	witnessTimeout  = 5 * time.Second
	maxWitnessReply = 64 << 10 // bytes
)

// ParseWitness parses the setting of a witness: its verifier key, a space and its URL.
func ParseWitness(text string) (Witness, error) {
	key, address, _ := strings.Cut(strings.TrimSpace(text), " ")
	v, err := cosignature.NewVerifier(key)
	if err != nil {
		return Witness{}, err
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return Witness{}, fmt.Errorf("%q is not the URL of a witness: want its key, a space and a URL such as https://witness.example", address)
	}
	noRedirects := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return Witness{v, strings.TrimSuffix(address, "/"), &http.Client{Timeout: witnessTimeout, CheckRedirect: noRedirects}}, nil
}

// rejection is the error of a witness that has seen a checkpoint which the submitted one does not extend.
type rejection string

func (r rejection) Error() string { return "the witness rejected the checkpoint: " + string(r) }

// Cosign submits the newest checkpoint to the witnesses that have not replied to it yet, all at once. The error names every witness that could
// not be reached or rejected; the others' cosignatures are stored.
func (l Log) Cosign(ctx context.Context) error {
	origin, err := l.Origin(ctx)
	if err != nil {
		return err
	}
	c, err := l.newest(ctx, origin)
	if err != nil || c.Size == 0 {
		return err
	}
	replies, err := l.Store.Replies(ctx, c.Origin, c.Size)
	if err != nil {
		return err
	}
	replied := map[string]bool{}
	var errs []error
	for _, r := range replies {
		replied[r.Witness] = true
		if r.Rejection != "" {
			errs = append(errs, fmt.Errorf("%s: %w", r.Witness, rejection(r.Rejection)))
		}
	}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, w := range l.Witnesses {
		if replied[w.Name()] {
			continue
		}
		asked.Go(func() {
			if err := l.submit(ctx, w, c); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("%s: %w", w.Name(), err))
			}
		})
	}
	asked.Wait()
	return errors.Join(errs...)
}

// submit submits a checkpoint to a witness and stores its reply.
func (l Log) submit(ctx context.Context, w Witness, c LogCheckpoint) error {
	old, err := l.Store.LastCosigned(ctx, c.Origin, w.Name())
	if err != nil {
		return err
	}
	signature, seen, err := l.add(ctx, w, c, old)
	if err == nil && signature == "" && seen <= c.Size { // another size than the store knows: its reply was lost
		signature, seen, err = l.add(ctx, w, c, seen)
	}
	if err == nil && signature == "" {
		newest, err := l.newest(ctx, c.Origin)
		if err != nil || newest.Size >= seen { // another replica has signed and submitted a newer one
			return err
		}
		err = rejection(fmt.Sprintf("it has seen %d events, the log has %d", seen, newest.Size))
		return l.rejected(ctx, w, c, err.(rejection)) //nolint:errorlint,forcetypeassert // made above
	}
	if r := rejection(""); errors.As(err, &r) {
		return l.rejected(ctx, w, c, r)
	}
	if err != nil {
		return err
	}
	return l.Store.SaveReply(ctx, c, Reply{Witness: w.Name(), Signature: signature}, l.Now())
}

// rejected stores a rejection, after which the checkpoint is not published.
func (l Log) rejected(ctx context.Context, w Witness, c LogCheckpoint, why rejection) error {
	return errors.Join(why, l.Store.SaveReply(ctx, c, Reply{Witness: w.Name(), Rejection: string(why)}, l.Now()))
}

// add submits a checkpoint, with a proof that it extends the one of size old. Without a signature and an error, seen is the size of the newest
// checkpoint that the witness has cosigned, which is not old. The error is a rejection if the witness has seen another tree.
func (l Log) add(ctx context.Context, w Witness, c LogCheckpoint, old int64) (signature string, seen int64, err error) {
	var body bytes.Buffer
	fmt.Fprintf(&body, "old %d\n", old)
	if old > 0 && old < c.Size {
		proof, err := tlog.ProveTree(c.Size, old, l.hashes(ctx, c))
		if err != nil {
			return "", 0, err
		}
		for _, h := range proof {
			fmt.Fprintf(&body, "%s\n", h)
		}
	}
	body.WriteString("\n" + c.Note)
	status, header, reply, err := w.do(ctx, http.MethodPost, "/add-checkpoint", &body)
	switch {
	case err != nil:
		return "", 0, err
	case status == http.StatusOK:
		opened, err := note.Open([]byte(c.Note+reply), note.VerifierList(w.Verifier))
		if err != nil {
			return "", 0, fmt.Errorf("its reply has no valid cosignature: %w", err)
		}
		return opened.Sigs[0].Base64, 0, nil
	case status == http.StatusConflict && header.Get("Content-Type") == "text/x.tlog.size":
		seen, err := strconv.ParseInt(strings.TrimSuffix(reply, "\n"), 10, 64)
		if err != nil || seen < 0 || seen == old {
			return "", 0, fmt.Errorf("unexpected reply 409 %.40q", reply)
		}
		return "", seen, nil
	case status == http.StatusUnprocessableEntity:
		return "", 0, rejection(fmt.Sprintf("the checkpoint of %d events does not extend the %d that it has seen", c.Size, old))
	}
	return "", 0, fmt.Errorf("unexpected status %d", status)
}

// do sends a request to the witness and returns the body of its response.
func (w Witness) do(ctx context.Context, method, path string, body io.Reader) (status int, header http.Header, reply string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, body)
	if err != nil {
		return 0, nil, "", err
	}
	res, err := w.client.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, maxWitnessReply+1))
	if err == nil && len(text) > maxWitnessReply {
		err = fmt.Errorf("reply of more than %d bytes", maxWitnessReply)
	}
	return res.StatusCode, res.Header, string(text), err
}
