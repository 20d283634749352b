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

	"github.com/gin-gonic/gin"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/jsonlines"
	"opportunity.internal/pkg/listingfile"
	"opportunity.internal/pkg/params"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/pkg/web"
)

const (
	maxRequest = 4 << 20         // bytes of a JSON request body
	workTime   = 2 * time.Minute // to process a request once it has been read
)

func (a API) importFile(g *gin.Context, actor string) (web.Reply, error) {
	mode, err := importMode(g)
	if err != nil {
		return web.Reply{}, err
	}
	u := upload{now: a.Now(), want: mode.sum}
	var report api.ImportReport
	err = u.receive(g, func() (err error) {
		if mode.dry {
			report, err = a.Listings.Preview(g.Request.Context(), u.lines)
		} else {
			report, err = a.Listings.Import(g.Request.Context(), actor, u.lines, mode.ask)
		}
		return err
	})
	if errors.Is(err, errRejected) {
		report, err = api.ImportReport{Rejected: u.wrong.Rejected, Omitted: u.wrong.Omitted}, nil
	}
	if mode.dry {
		report.SHA256 = u.sum
	}
	return web.Reply{JSON: report}, err
}

// upload is a listings file that arrives with a request.
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

// errRejected is the error of a file with invalid lines.
var errRejected = errors.New("the file has invalid lines")

func (u *upload) receive(g *gin.Context, use func() error) error {
	return web.File(g, 0, func(in io.Reader) error {
		u.in = bufio.NewReaderSize(in, received)
		if _, err := u.in.Peek(received); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		web.Extend(g, api.FileTimeout)
		return use()
	})
}

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

// mode has the parameters of an import.
type mode struct {
	dry bool
	ask bool   // changes nothing if it would publish several listings, one of them never reviewed
	sum string // required SHA-256 of the file; empty if any file is accepted
}

func importMode(g *gin.Context) (m mode, err error) {
	values, err := params.Read(g.Request.URL.RawQuery, "dryRun", "ask", "sha256")
	if err != nil {
		return m, err
	}
	var errs [3]error
	m.dry, errs[0] = values.Flag("dryRun")
	m.ask, errs[1] = values.Flag("ask")
	if m.sum = values["sha256"]; m.sum != "" && (len(m.sum) != 2*sha256.Size ||
		strings.Trim(m.sum, "0123456789abcdef") != "") {
		errs[2] = problem.Invalid("sha256", "must be the sha256 of a dry run")
	}
	return m, params.Join(errs[:]...)
}

// dryRun reports whether the request is a dry run. It returns an error for a misspelled name or
// value, so that a typo never turns a dry run into a change.
func dryRun(g *gin.Context) (bool, error) {
	values, err := params.Read(g.Request.URL.RawQuery, "dryRun")
	if err != nil {
		return false, err
	}
	return values.Flag("dryRun")
}

// export streams the whole catalog, which may exceed the pod's memory.
func (a API) export(g *gin.Context) (web.Reply, error) {
	web.Extend(g, api.OperatorTimeout)
	next, stop := iter.Pull2(a.Listings.Export(g.Request.Context()))
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

func (a API) publish(g *gin.Context, actor string) (web.Reply, error) {
	dry, err := dryRun(g)
	if err != nil {
		return web.Reply{}, err
	}
	selected, err := selectListings(g)
	if err == nil && selected.Reason != "" {
		err = problem.Invalid("reason", "is for withdrawing listings only")
	}
	if err != nil {
		return web.Reply{}, err
	}
	var report api.ImportReport
	if selected.All {
		report, err = a.Listings.PublishAll(g.Request.Context(), actor, dry)
	} else {
		report, err = a.Listings.Publish(g.Request.Context(), actor, selected.IDs, dry)
	}
	return web.Reply{JSON: report}, err
}

func (a API) withdraw(g *gin.Context, actor string) (web.Reply, error) {
	selected, err := selectListings(g)
	if err == nil && selected.All {
		err = problem.New(problem.InvalidParameter, "Withdrawing all listings at once is not supported: set ids.")
	}
	if err != nil {
		return web.Reply{}, err
	}
	report, err := a.Listings.Withdraw(g.Request.Context(), actor, selected.IDs, selected.Reason)
	return web.Reply{JSON: report}, err
}

// selection selects listings: either IDs or All.
type selection struct {
	IDs    []string `json:"ids"`
	All    bool     `json:"all"`
	Reason string   `json:"reason"`
}

func selectListings(g *gin.Context) (in selection, err error) {
	if err := decode(g, &in, `{"ids": [...]} or {"all": true}`); err != nil {
		return in, err
	}
	web.Extend(g, workTime)
	if in.All == (len(in.IDs) > 0) {
		return in, problem.New(problem.InvalidParameter, "Set either ids or all: true, not both.")
	}
	if in.Reason != "" {
		if in.Reason, err = api.Lines(in.Reason, api.MaxText); err != nil {
			return in, problem.Invalid("reason", err.Error())
		}
	}
	return in, nil
}
