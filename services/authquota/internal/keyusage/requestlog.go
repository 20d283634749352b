package keyusage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/gzip"

	"opportunity.internal/pkg/api"
	"opportunity.internal/pkg/database"
	"opportunity.internal/pkg/problem"
	"opportunity.internal/services/authquota/internal/accountdb"
)

// Request is a logged request with its key.
type Request struct {
	api.LoggedRequest

	KeyName  string // may be empty
	KeyShown string // how the key is displayed, such as oda_live_…A1b2
}

// Took returns the duration for display.
func (r Request) Took() string { return r.Duration.Round(time.Millisecond / 10).String() }

var route = regexp.MustCompile(`^/api(/[a-z0-9]+|/\{id\})+$`)

// CheckRequests validates the requests of a batch and returns those within the retention. Times in
// the future, from a gateway whose clock is ahead, count as now. Parameters and error codes that
// only another release knows are left out.
func CheckRequests(sent []api.LoggedRequest, now time.Time) ([]api.LoggedRequest, error) {
	if len(sent) > api.MaxUsageRequests {
		return nil, problem.Invalid("requests", fmt.Sprintf("must have at most %d entries", api.MaxUsageRequests))
	}
	var recent []api.LoggedRequest
	for i, r := range sent {
		if field := invalidField(r); field != "" {
			return nil, problem.Invalid(fmt.Sprintf("requests[%d].%s", i, field), "is invalid")
		}
		r.Params = api.LoggedParams(r.Params)
		if !slices.ContainsFunc(problem.Table, func(e problem.Entry) bool { return string(e.Code) == r.Code }) {
			r.Code = ""
		}
		if r.At.After(now) {
			r.At = now
		}
		if r.At.After(now.Add(-api.RequestLogDuration)) {
			recent = append(recent, r)
		}
	}
	return recent, nil
}

func invalidField(r api.LoggedRequest) string {
	switch {
	case len(r.ID) != 36 || uuid.Validate(r.ID) != nil:
		return "id"
	case !accountdb.ValidID("key_", r.Key):
		return "key"
	case !route.MatchString(r.Route):
		return "route"
	case r.Status < 100 || r.Status > 599:
		return "status"
	case r.Duration < 0 || r.Duration > 24*time.Hour:
		return "duration"
	}
	return ""
}

// Result is a group of responses.
type Result string

const (
	ResultSuccessful Result = "successful" // 2xx and 304
	ResultRejected   Result = "rejected"   // other than by an error of the service
	ResultFailed     Result = "failed"
)

// Results lists the groups in the order of the page.
var Results = []Result{ResultSuccessful, ResultRejected, ResultFailed}

// ResultOf returns the group of a status.
func ResultOf(status int) Result {
	switch {
	case status >= 500:
		return ResultFailed
	case status >= 400:
		return ResultRejected
	}
	return ResultSuccessful
}

// RequestFilter selects requests. Empty fields select all.
type RequestFilter struct {
	ID     string // of the request
	Key    string
	Result Result
}

// Apply returns the selected requests.
func (f RequestFilter) Apply(all []Request) (selected []Request) {
	for _, r := range all {
		if (f.ID == "" || f.ID == r.ID) && (f.Key == "" || f.Key == r.Key) &&
			(f.Result == "" || f.Result == ResultOf(r.Status)) {
			selected = append(selected, r)
		}
	}
	return selected
}

// RequestPageSize is the number of requests on a page.
const RequestPageSize = 50

// RequestPage returns the requests of a page that come after the one with an id, and whether more
// follow. An unknown id, such as that of a request that has left the log, gives the first page.
func RequestPage(selected []Request, after string) (page []Request, more bool) {
	selected = selected[slices.IndexFunc(selected, func(r Request) bool { return r.ID == after })+1:]
	return selected[:min(len(selected), RequestPageSize)], len(selected) > RequestPageSize
}

// requestSecond has the requests of a key in one second that came in one batch. A requestSecond for
// each request would cost fifty times as much.
type requestSecond struct {
	KeyID    string `gorm:"primaryKey"`
	Second   int64  `gorm:"primaryKey;autoIncrement:false"`
	Batch    string `gorm:"primaryKey"`
	Calls    int
	Requests []byte // JSON array of api.LoggedRequest, as gzip
}

func (requestSecond) TableName() string { return "request_log_seconds" }

// AddRequests adds requests to the request log. A batch that was added before adds nothing.
func (s *Store) AddRequests(ctx context.Context, requests []api.LoggedRequest) error {
	type second struct {
		key string
		at  int64
	}
	var order []second
	sent := map[second][]api.LoggedRequest{}
	for _, r := range requests {
		in := second{r.Key, r.At.Unix()}
		if sent[in] == nil {
			order = append(order, in)
		}
		sent[in] = append(sent[in], r)
	}
	rows := make([]requestSecond, len(order))
	for i, in := range order {
		packed, err := pack(sent[in])
		if err != nil {
			return err
		}
		rows[i] = requestSecond{in.key, in.at, sent[in][0].ID, len(sent[in]), packed}
	}
	return database.Outage(database.InsertMissing(s.db.WithContext(ctx), rows))
}

var packers = sync.Pool{New: func() any { w, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed); return w }}

func pack(requests []api.LoggedRequest) ([]byte, error) {
	text, err := json.Marshal(requests)
	if err != nil {
		return nil, err
	}
	w := packers.Get().(*gzip.Writer)
	defer packers.Put(w)
	var out bytes.Buffer
	w.Reset(&out)
	_, _ = w.Write(text) // a buffer never fails
	err = w.Close()
	return out.Bytes(), err
}

// maxUnpacked bounds the JSON of a requestSecond, in bytes: api.MaxUsageRequests take a fraction.
const maxUnpacked = 4 << 20

func unpack(packed []byte) (requests []api.LoggedRequest, err error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	err = json.NewDecoder(io.LimitReader(r, maxUnpacked)).Decode(&requests)
	return requests, err
}

// RecentRequests returns the latest api.RequestLogSize requests with the keys of an account, newest
// first.
func (s *Store) RecentRequests(ctx context.Context, accountID string) ([]Request, error) {
	var rows []struct {
		Row requestSecond `gorm:"embedded"`

		Name, Prefix, LastFour string
	}
	begin := s.db.Now().Add(-api.RequestLogDuration)
	err := s.db.WithContext(ctx).Raw(`SELECT r.*, k.name, k.prefix, k.last_four FROM (
			SELECT r.*, sum(calls) OVER (ORDER BY second DESC) - sum(calls) OVER (PARTITION BY second) AS newer FROM
				request_log_seconds r
			WHERE key_id IN (SELECT id FROM api_keys WHERE account_id = ?) AND second >= ?
		) r JOIN api_keys k ON k.id = r.key_id WHERE r.newer < ?`, accountID, begin.Unix(), api.RequestLogSize).Scan(&rows).Error
	if err != nil {
		return nil, database.Outage(err)
	}
	var recent []Request
	for _, r := range rows {
		requests, err := unpack(r.Row.Requests)
		if err != nil {
			return nil, fmt.Errorf("request log of key %s, second %d: %w", r.Row.KeyID, r.Row.Second, err)
		}
		for _, logged := range requests {
			if logged.At.After(begin) {
				recent = append(recent, Request{logged, r.Name, r.Prefix + "…" + r.LastFour})
			}
		}
	}
	slices.SortFunc(recent, func(a, b Request) int { return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.ID, b.ID)) })
	// a batch that was cut in another way when it was sent again
	recent = slices.CompactFunc(recent, func(a, b Request) bool { return a.ID == b.ID })
	return recent[:min(len(recent), api.RequestLogSize)], nil
}

// PruneRequests deletes the rows of the request log that are past their retention, and those of a
// key beyond the latest api.RequestLogSize requests.
func (s *Store) PruneRequests(ctx context.Context) error {
	db := s.db.WithContext(ctx)
	err := db.Where("second < ?", s.db.Now().Add(-api.RequestLogDuration).Unix()).Delete(&requestSecond{}).Error
	if err == nil {
		err = db.Exec(`DELETE FROM request_log_seconds WHERE (key_id, second, batch) IN (SELECT key_id, second, batch FROM (
			SELECT key_id, second, batch, sum(calls) OVER (PARTITION BY key_id ORDER BY second DESC, batch DESC) - calls AS newer
				FROM request_log_seconds
		) r WHERE newer >= ?)`, api.RequestLogSize).Error
	}
	return database.Outage(err)
}
