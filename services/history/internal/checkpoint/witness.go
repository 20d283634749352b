package checkpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"filippo.io/torchwood"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/services/history/internal/store"
)

// Witness is a witness that cosigns the checkpoints of the log (C2SP tlog-witness).
type Witness struct {
	*torchwood.CosignatureVerifier

	url string // prefix of its submissions and of its checkpoints, without a trailing slash
}

const maxWitnessReply = 64 << 10 // bytes

// witnessClient sends requests to all witnesses.
var witnessClient = &http.Client{
	Timeout:       5 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// ParseWitness parses the setting of a witness: its verifier key, a space and its URL.
func ParseWitness(text string) (Witness, error) {
	key, address, _ := strings.Cut(strings.TrimSpace(text), " ")
	v, err := torchwood.NewCosignatureVerifier(key)
	if err != nil {
		return Witness{}, fmt.Errorf("%q is not the key of a witness, such as witness.example+0badc0de+base64: %w", key,
			err)
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || u.RawQuery != "" ||
		u.Fragment != "" {
		return Witness{}, fmt.Errorf("%q is not the URL of a witness: want its key, a space and a URL such as "+
			"https://witness.example", address)
	}
	return Witness{v, strings.TrimSuffix(address, "/")}, nil
}

// errConflict is the error of a witness that says it has seen a checkpoint which the submitted one
// does not extend.
var errConflict = errors.New("the witness rejected the checkpoint")

// Cosign submits the newest checkpoint to the witnesses that have not cosigned it yet, all at once.
// The error names every witness that could not be reached or rejected it; the others' cosignatures
// are stored.
func (l Log) Cosign(ctx context.Context) error {
	origin, _, _, err := l.Origin(ctx)
	if err != nil {
		return err
	}
	c, err := l.newest(ctx, origin)
	if err != nil || c.N == 0 {
		return err
	}
	cosigned, err := l.Store.Cosignatures(ctx, c.Origin, c.N)
	if err != nil {
		return err
	}
	errs := make([]error, len(l.Witnesses))
	var asked sync.WaitGroup
	for i, w := range l.Witnesses {
		if slices.ContainsFunc(cosigned, func(s store.Cosignature) bool { return s.Witness == w.Name() }) {
			continue
		}
		asked.Go(func() {
			if err := l.submit(ctx, w, c); err != nil {
				errs[i] = fmt.Errorf("%s: %w", w.Name(), err)
			}
		})
	}
	asked.Wait()
	return errors.Join(errs...)
}

func (l Log) submit(ctx context.Context, w Witness, c Checkpoint) error {
	old, err := l.Store.LastCosigned(ctx, c.Origin, w.Name())
	if err != nil {
		return err
	}
	signature, seen, err := l.add(ctx, w, c, old)
	if err == nil && signature == "" && seen <= c.N { // another size than the store knows: its reply was lost
		signature, seen, err = l.add(ctx, w, c, seen)
	}
	switch {
	case err == nil && signature == "":
		newest, err := l.newest(ctx, c.Origin)
		if err != nil || newest.N >= seen { // another replica has signed and submitted a newer one
			return err
		}
		err = fmt.Errorf("%w: it has seen %d events, the log has %d", errConflict, seen, newest.N)
		return l.rejected(ctx, w, c, err)
	case errors.Is(err, errConflict):
		return l.rejected(ctx, w, c, err)
	case err != nil:
		return err
	}
	return l.Store.SaveCosignature(ctx, store.Cosignature{Origin: c.Origin, Size: c.N, Witness: w.Name(),
		Signature: signature, MadeAt: l.Now().UnixMicro()})
}

// rejected returns the error of a rejection. Only a checkpoint that this log has signed and lacks
// proves it: a witness that shows one reports a loss. Any other rejection is that of a witness
// which does not work.
func (l Log) rejected(ctx context.Context, w Witness, c Checkpoint, why error) error {
	has := false
	shown, err := l.shown(ctx, w, c.Origin)
	if err == nil {
		has, err = l.has(ctx, shown)
	}
	if err == nil && !has {
		err = l.Lost(ctx)
	}
	return errors.Join(why, err)
}

// has reports whether the log has exactly the events that a checkpoint of it covers.
func (l Log) has(ctx context.Context, c Checkpoint) (bool, error) {
	newest, err := l.newest(ctx, c.Origin)
	if err != nil || c.N > newest.N {
		return false, err
	}
	root, err := tlog.TreeHash(c.N, l.hashes(ctx, newest))
	return root == c.Hash, err
}

// add submits a checkpoint, with a proof that it extends the one of size old. Without a signature
// and an error, seen is the size of the newest checkpoint that the witness has cosigned, which is
// not old. The error is errConflict if the witness has seen another tree.
func (l Log) add(ctx context.Context, w Witness, c Checkpoint, old int64) (signature string, seen int64, err error) {
	var body bytes.Buffer
	fmt.Fprintf(&body, "old %d\n", old)
	if old > 0 && old < c.N {
		proof, err := tlog.ProveTree(c.N, old, l.hashes(ctx, c))
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
		opened, err := note.Open([]byte(c.Note+reply), note.VerifierList(w))
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
		return "", 0, fmt.Errorf("%w: %d events do not extend the %d that it has seen", errConflict, c.N, old)
	}
	return "", 0, fmt.Errorf("unexpected status %d", status)
}

// shown returns the newest checkpoint that the witness shows for an origin. It returns an error
// unless the log has signed it.
func (l Log) shown(ctx context.Context, w Witness, origin string) (Checkpoint, error) {
	status, _, text, err := w.do(ctx, http.MethodGet, fmt.Sprintf("/%x/checkpoint", sha256.Sum256([]byte(origin))),
		http.NoBody)
	if err != nil || status != http.StatusOK {
		return Checkpoint{}, errors.Join(err, fmt.Errorf("reading its checkpoint: status %d", status))
	}
	c, err := l.Keys.Open(text)
	if err != nil || c.Origin != origin {
		return c, errors.Join(err, errors.New("it shows no checkpoint of this log"))
	}
	return c, nil
}

func (w Witness) do(ctx context.Context, method, path string, body io.Reader) (status int, header http.Header,
	reply string, err error) {
	req, err := http.NewRequestWithContext(ctx, method, w.url+path, body)
	if err != nil {
		return 0, nil, "", err
	}
	res, err := witnessClient.Do(req)
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
