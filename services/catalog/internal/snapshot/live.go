package snapshot

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/catalog/internal/listing"
)

// Source is the store of the catalog. Its change sequence grows with every change of a listing or
// of its summary, in commit order. Each listing has the sequence of its latest change.
type Source interface {
	// Sequence returns the sequence of the latest change.
	Sequence(ctx context.Context) (int64, error)
	// PositionAt returns the position behind the change that has the sequence, or the zero value if
	// there is none.
	PositionAt(ctx context.Context, sequence int64) (listing.Position, error)
	// Changes calls each for every listing with a sequence above after, in any order.
	Changes(ctx context.Context, after int64, each func(Row) error) error
}

// Row is a listing read from the store. Document is the JSON of a listingfile.Listing, or null if
// the listing is not published. Summary is the JSON of an api.Summary, or null if history has none.
type Row struct {
	Sequence       int64
	PublicSequence int64 // of the latest change that consumers can see
	ID             string
	PublishedAt    *time.Time
	ChangedAt      *time.Time
	Document       sql.NullString
	Summary        sql.NullString
}

// PollInterval is the maximum delay until a change by another process is noticed.
const PollInterval = time.Second

const (
	pollTimeout = 2 * time.Second // to read the source's sequence
	loadTimeout = time.Minute     // to read the changes
	loadBatch   = 128             // rows that one goroutine encodes at a time
)

// Live serves the newest snapshot of a source.
type Live struct {
	source Source
	now    func() time.Time
	log    *slog.Logger

	current        atomic.Pointer[Snapshot]  // nil before the first load
	lastPoll       atomic.Pointer[time.Time] // start of the last successful poll, with its monotonic clock reading
	polledSequence int64                     // the source's sequence at that poll
	polledPosition listing.Position          // of the change with that sequence
	loaded         atomic.Int64              // the source's sequence up to which current has all changes
}

// NewLive returns a catalog without a snapshot. Poll loads it.
func NewLive(source Source, now func() time.Time, log *slog.Logger) *Live {
	return &Live{source: source, now: now, log: log}
}

// Poll loads the changes of the source. If it fails, the snapshot does not change. Call it every
// PollInterval.
func (l *Live) Poll(ctx context.Context) error {
	started := l.now() // the data read is at least this new
	short, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	sequence, err := l.source.Sequence(short)
	if err != nil {
		return err
	}
	current := l.current.Load()
	replaced, err := l.replaced(short, sequence)
	if err != nil {
		return err
	}
	if replaced {
		l.log.WarnContext(ctx, "catalog database was replaced: loading all records", "sequence", sequence,
			"loaded_sequence", l.polledSequence)
		current = nil
	}
	if current != nil && sequence == l.polledSequence {
		l.lastPoll.Store(&started)
		return nil
	}
	start := time.Now()
	next, n, err := l.load(ctx, current)
	if err != nil {
		return err
	}
	if l.polledPosition, err = l.source.PositionAt(ctx, sequence); err != nil {
		return err
	}
	l.polledSequence = sequence
	l.lastPoll.Store(&started) // before the first snapshot is there to be served
	if next != current {
		next.buildTime, next.builtAt = time.Since(start), l.now()
		l.current.Store(next)
		l.log.InfoContext(ctx, "catalog loaded", "sequence", next.sequence, "changed", n, "records", next.Len(),
			"took", next.buildTime)
		limitHeap(growth(next.bytes))
		if current == nil {
			debug.FreeOSMemory() // what decoding all records needed
		}
	}
	l.loaded.Store(sequence)
	return nil
}

// Sequence returns the source's sequence up to which View has all changes.
func (l *Live) Sequence() int64 { return l.loaded.Load() }

// replaced reports whether the source lacks the newest change of the last poll: its database was
// restored from a backup, or a replica that lagged has taken over.
func (l *Live) replaced(ctx context.Context, sequence int64) (bool, error) {
	if sequence == l.polledSequence || l.polledPosition.ID == "" || l.polledPosition.Sequence != l.polledSequence {
		return false, nil
	}
	position, err := l.source.PositionAt(ctx, l.polledSequence)
	return position != l.polledPosition, err
}

// load applies the changes since current (nil: all rows), and returns their number. It leaves out a
// row that cannot be decoded or encoded. One goroutine reads rows, and one per processor encodes
// them.
func (l *Live) load(ctx context.Context, current *Snapshot) (next *Snapshot, n int, err error) {
	first := current == nil
	if first {
		current = empty
		limitHeap(minGrowth)
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	batches := make(chan []Row, 2*runtime.GOMAXPROCS(0))
	var mu sync.Mutex
	var changes []change
	sequence, public := current.sequence, current.public
	g, ctx := errgroup.WithContext(ctx)
	for range runtime.GOMAXPROCS(0) {
		g.Go(func() error {
			encoded := l.encode(ctx, batches)
			mu.Lock()
			defer mu.Unlock()
			changes = append(changes, encoded...)
			return nil
		})
	}
	g.Go(func() (err error) {
		defer close(batches)
		sequence, public, err = l.read(ctx, current, batches)
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, 0, err
	}
	if len(changes) == 0 && !first {
		return current, 0, nil
	}
	return current.apply(changes, sequence, public), len(changes), nil
}

func (l *Live) encode(ctx context.Context, batches <-chan []Row) (changes []change) {
	enc := newEncoder(l.now)
	for rows := range batches {
		for _, row := range rows {
			c, err := enc.change(row)
			if err != nil { // leave out this row only: a later withdrawal or repair must still apply
				l.log.ErrorContext(ctx, "record left out", "listing_id", row.ID, "error", err.Error())
				c = change{id: row.ID, leftOut: true}
			}
			changes = append(changes, c)
		}
	}
	return changes
}

// read sends the rows changed after current to batches, and returns the highest sequences.
func (l *Live) read(ctx context.Context, current *Snapshot, batches chan<- []Row) (sequence, public int64, err error) {
	sequence, public = current.sequence, current.public
	rows := make([]Row, 0, loadBatch)
	send := func() error {
		select {
		case batches <- rows:
			rows = make([]Row, 0, loadBatch)
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err = l.source.Changes(ctx, sequence, func(row Row) error {
		sequence, public = max(sequence, row.Sequence), max(public, row.PublicSequence)
		if rows = append(rows, row); len(rows) < loadBatch {
			return nil
		}
		return send()
	})
	return sequence, public, errors.Join(err, send())
}

// encoder converts rows to records. It reuses its buffer and is not safe for concurrent use.
type encoder struct {
	now  func() time.Time // check times are capped at the time of encoding
	buf  bytes.Buffer
	json *json.Encoder
}

func newEncoder(now func() time.Time) *encoder {
	e := &encoder{now: now}
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false)
	return e
}

func (e *encoder) change(row Row) (change, error) {
	if !row.Document.Valid {
		return change{id: row.ID}, nil
	}
	entry := listing.Entry{ChangedAt: row.ChangedAt}
	if err := listing.Documents.UnmarshalFromString(row.Document.String, &entry.Listing); err != nil {
		return change{}, fmt.Errorf("decoding listing %s: %w", row.ID, err)
	}
	entry.PublishedAt = row.PublishedAt
	var summary api.Summary
	if row.Summary.Valid {
		if err := listing.Documents.UnmarshalFromString(row.Summary.String, &summary); err != nil {
			return change{}, fmt.Errorf("decoding the summary of listing %s: %w", row.ID, err)
		}
	}
	r, terms, err := e.record(entry, summary)
	if err != nil {
		return change{}, fmt.Errorf("encoding listing %s: %w", row.ID, err)
	}
	r.id, r.sequence = row.ID, row.PublicSequence
	return change{id: r.id, record: r, terms: terms}, nil
}

func (e *encoder) record(entry listing.Entry, summary api.Summary) (*record, string, error) {
	o := entry.Public(summary, e.now().UTC())
	r := &record{checked: never, published: math.MaxInt64}
	if at := o.Verification.LastCheckedAt; at != nil {
		r.checked = unixNanos(*at)
		r.flags |= disputed
		if summary.Undisputed(entry.ChangedAt) {
			r.flags ^= disputed | undisputed
		}
	}
	if o.PublishedAt != nil {
		r.published = unixNanos(*o.PublishedAt)
	}
	category := slices.Index(api.Categories, o.Category)
	if category < 0 {
		return nil, "", fmt.Errorf("unknown category %q", o.Category)
	}
	r.category = uint8(category) //nolint:gosec // one of a few
	if o.Facts.ApplicationStatus == api.ApplicationOpen {
		r.flags |= open
	}
	for i, fact := range api.BoolFacts {
		r.facts.set(i, *fact.Value(&o.Facts))
	}
	r.countries, r.provinces = eligible(o.Facts.CountryEligibility)
	terms := termsOf(o)
	r.terms = maphash.String(seed, terms)

	o.Verification.Status = ""
	expires := o.CompanyProfile != nil && o.CompanyProfile.FreshUntil != nil
	if expires {
		r.freshUntil = unixNanos(*o.CompanyProfile.FreshUntil)
		o.CompanyProfile.Freshness = ""
	}
	e.buf.Reset()
	if err := e.json.Encode(o); err != nil {
		return nil, "", err
	}
	r.text = bytes.Clone(bytes.TrimSuffix(e.buf.Bytes(), []byte("\n")))
	// Quotes inside strings are escaped, so these match member names only.
	r.statusAt = r.endOf(`"verification":{"status":"`)
	if expires {
		r.freshnessAt = r.endOf(`"freshness":"`)
	}
	return r, terms, nil
}

// endOf returns the offset after the last occurrence of name, which the text must contain.
func (r *record) endOf(name string) uint32 {
	return uint32(bytes.LastIndex(r.text, []byte(name)) + len(name)) //nolint:gosec // a record is at most a few MiB
}

// eligible returns the countries whose residents are eligible, and the Canadian provinces with
// evidence of eligibility. A province counts if an entry with a source includes it (by name or with
// all regions) and no entry excludes it.
func eligible(entries []api.CountryEligibility) (countries []country, provinces uint16) {
	var excluded uint16
	for _, c := range entries {
		if c.Country == "CA" {
			excluded |= provinceBits(c.ExcludedRegions)
		}
		if c.Status != api.Eligible || len(c.Country) != 2 {
			continue
		}
		if code := country([]byte(c.Country)); !slices.Contains(countries, code) {
			countries = append(countries, code)
		}
		if c.Country == "CA" && len(c.SourceURLs) > 0 {
			provinces |= provinceBits(c.IncludedRegions)
			if c.AllRegions != nil && *c.AllRegions {
				provinces = 1<<len(api.Provinces) - 1
			}
		}
	}
	return countries, provinces &^ excluded
}

func provinceBits(regions []string) (bits uint16) {
	for _, region := range regions {
		if i := provinceIndex(region); i >= 0 {
			bits |= 1 << i
		}
	}
	return bits
}

// provinceIndex returns the index of a code such as "CA-ON" in api.Provinces, or -1.
func provinceIndex(code string) int {
	if len(code) != len("CA-ON") {
		return -1
	}
	return slices.Index(api.Provinces, code[len("CA-"):])
}

var errNotLoaded = errors.New("snapshot not loaded yet")

// Loaded returns an error before the first load.
func (l *Live) Loaded(context.Context) error {
	if l.current.Load() == nil {
		return errNotLoaded
	}
	return nil
}

// Stats describes the newest snapshot, for metrics. It is the zero value before the first load.
type Stats struct {
	Records   int
	Bytes     int64 // of the encoded records
	LeftOut   int   // published records that cannot be decoded
	Sequence  int64
	Age       time.Duration // since the last successful poll of the source
	BuildTime time.Duration // to read and build the snapshot
	BuiltAt   time.Time
}

// Stats returns the current statistics.
func (l *Live) Stats() Stats {
	s := l.current.Load()
	if s == nil {
		return Stats{}
	}
	return Stats{
		Records: s.Len(), Bytes: s.bytes, LeftOut: len(s.leftOut), Sequence: s.sequence,
		Age: l.now().Sub(*l.lastPoll.Load()), BuildTime: s.buildTime, BuiltAt: s.builtAt,
	}
}

// Growth of the heap between two collections.
const (
	minGrowth = 12       // percent, also during the first load
	maxGrowth = 400      // percent
	headroom  = 18 << 20 // bytes, within these limits
)

// growth returns the growth in percent for a snapshot of encoded records. Go's default of 100
// percent would double the memory of a large catalog, whose records stay, and collect a small one
// several times a second.
func growth(records int64) int {
	return int(min(max(headroom*100/max(records, 1), minGrowth), maxGrowth))
}

// limitHeap sets the growth in percent. GOGC in the environment overrides it.
func limitHeap(percent int) {
	if _, set := os.LookupEnv("GOGC"); !set {
		debug.SetGCPercent(percent)
	}
}
