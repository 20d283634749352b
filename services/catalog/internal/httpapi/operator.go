package httpapi

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"strings"
	"time"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/jsonlines"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
)

const workTime = 2 * time.Minute // to process a request once it has been read

func (a API) importFile(r request) (web.Reply, error) {
	var errs [3]error
	dry, err := r.values.Flag("dryRun")
	errs[0] = err
	// changes nothing if it would publish several listings, one of them never reviewed
	ask, err := r.values.Flag("ask")
	errs[1] = err
	u := upload{now: a.Now(), want: r.values["sha256"]}
	if u.want != "" && (len(u.want) != 2*sha256.Size || strings.Trim(u.want, "0123456789abcdef") != "") {
		errs[2] = problem.Invalid("sha256", "must be the sha256 of a dry run")
	}
	if err := params.Join(errs[:]...); err != nil {
		return web.Reply{}, err
	}
	var report api.ImportReport
	err = web.File(r.Context, 0, func(in io.Reader) error {
		u.in = bufio.NewReaderSize(in, received)
		if _, err := u.in.Peek(received); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		web.Extend(r.Context, api.FileTimeout)
		if dry {
			report, err = a.Listings.Preview(r.context(), u.lines)
		} else {
			report, err = a.Listings.Import(r.context(), r.actor, u.lines, ask)
		}
		return err
	})
	if errors.Is(err, errRejected) {
		report, err = api.ImportReport{Rejected: u.wrong.Rejected, Omitted: u.wrong.Omitted}, nil
	}
	if dry {
		report.SHA256 = u.sum
	}
	return web.Reply{JSON: report}, err
}

type upload struct {
	in   *bufio.Reader
	now  time.Time
	want string // required SHA-256 of the file; empty if any file is accepted

	sum   string // SHA-256 of the file
	wrong jsonlines.Rejections
}

// received is the size in bytes up to which a file is received before an import begins. The
// transaction waits for the sender of the rest of a larger file.
const received = 16 << 20

var errRejected = errors.New("the file has invalid lines")

// lines passes the valid lines to add. It returns errRejected at the end if there are others.
func (u *upload) lines(add func(listingfile.Line) error) error {
	hash := sha256.New()
	var err error
	u.wrong, err = listingfile.Scan(io.TeeReader(u.in, hash), u.now, api.MaxReported, add)
	u.sum = hex.EncodeToString(hash.Sum(nil))
	switch {
	case err != nil:
		return err
	case u.want != "" && u.sum != u.want:
		return problem.New(problem.InvalidParameter,
			"The file has the SHA-256 %s, not that of the parameter sha256: repeat the dry run.", u.sum)
	case len(u.wrong.Rejected) > 0:
		return errRejected
	}
	return nil
}

// export streams the whole catalog, which may exceed the pod's memory.
func (a API) export(r request) (web.Reply, error) {
	web.Extend(r.Context, api.OperatorTimeout)
	next, stop := iter.Pull2(a.Listings.Export(r.context()))
	entry, err, more := next() // before the status is sent: a database outage must be a 503
	if err != nil {
		stop()
		return web.Reply{}, err
	}
	return web.Reply{Type: "application/jsonl", Done: stop, Stream: func(w io.Writer) error {
		out := bufio.NewWriterSize(w, 64<<10)
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(listingfile.NewHeader()); err != nil {
			return err
		}
		for ; more; entry, err, more = next() {
			if err != nil {
				return err
			}
			if err := enc.Encode(entry); err != nil {
				return err
			}
		}
		return out.Flush()
	}}, nil
}

// selection selects listings: either IDs or All.
type selection struct {
	IDs    []string `json:"ids"`
	All    bool     `json:"all"`
	Reason string   `json:"reason"`
}

func (a API) publish(r request, in selection) (web.Reply, error) {
	dry, err := r.values.Flag("dryRun")
	switch {
	case err != nil:
		return web.Reply{}, err
	case in.All == (len(in.IDs) > 0):
		return web.Reply{}, problem.New(problem.InvalidParameter, "Set either ids or all: true, not both.")
	case in.Reason != "":
		return web.Reply{}, problem.Invalid("reason", "is for withdrawing listings only")
	}
	web.Extend(r.Context, workTime)
	var report api.ImportReport
	if in.All {
		report, err = a.Listings.PublishAll(r.context(), r.actor, dry)
	} else {
		report, err = a.Listings.Publish(r.context(), r.actor, in.IDs, dry)
	}
	return web.Reply{JSON: report}, err
}

func (a API) withdraw(r request, in selection) (web.Reply, error) {
	if in.All || len(in.IDs) == 0 {
		return web.Reply{}, problem.New(problem.InvalidParameter,
			"Withdrawing all listings at once is not supported: set ids.")
	}
	reason, err := optionalReason(in.Reason)
	if err != nil {
		return web.Reply{}, err
	}
	web.Extend(r.Context, workTime)
	return web.JSON(a.Listings.Withdraw(r.context(), r.actor, in.IDs, reason))
}

func optionalReason(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	reason, err := api.Lines(text, api.MaxText)
	if err != nil {
		return "", problem.Invalid("reason", err.Error())
	}
	return reason, nil
}
