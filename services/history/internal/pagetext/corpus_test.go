package pagetext_test

import (
	"embed"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/services/history/internal/pagetext"
)

//go:embed testdata/*.tsv
var corpora embed.FS

// example is a line of a corpus.
type example struct {
	label, text string
	heldOut     bool // not used to tune the patterns
}

func corpus(t *testing.T, name string) (examples []example) {
	t.Helper()
	file, err := corpora.ReadFile("testdata/" + name)
	require.NoError(t, err)
	heldOut := false
	for line := range strings.Lines(string(file)) {
		label, text, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok {
			heldOut = heldOut || strings.HasPrefix(label, "# Held out")
			continue
		}
		examples = append(examples, example{label, text, heldOut})
	}
	return examples
}

// score counts decisions.
type score struct{ right, wrong, missed float64 }

func (s *score) add(want, got []string) {
	for _, g := range got {
		if slices.Contains(want, g) {
			s.right++
		} else {
			s.wrong++
		}
	}
	s.missed += float64(len(want))
	for _, w := range want {
		if slices.Contains(got, w) {
			s.missed--
		}
	}
}

func (s *score) precision() float64 { return s.right / (s.right + s.wrong) }
func (s *score) recall() float64    { return s.right / (s.right + s.missed) }

func TestSuggestionsForCorpus(t *testing.T) {
	var tuned, heldOut score
	for _, e := range corpus(t, "suggest.tsv") {
		var want, got []string
		if e.label != "-" {
			want = strings.Split(e.label, ",")
		}
		for _, q := range pagetext.Suggest("https://jobs.example/", pagetext.Page{Text: e.text}) {
			got = append(got, q.Fact)
		}
		slices.Sort(want)
		slices.Sort(got)
		got = slices.Compact(got)
		if !slices.Equal(want, got) {
			t.Logf("%q (held out: %t): got %v, want %v", e.text, e.heldOut, got, want)
		}
		if e.heldOut {
			heldOut.add(want, got)
		} else {
			tuned.add(want, got)
		}
	}
	t.Logf("tuned: precision %.3f, recall %.3f; held out: precision %.3f, recall %.3f", tuned.precision(),
		tuned.recall(), heldOut.precision(), heldOut.recall())
	require.GreaterOrEqual(t, tuned.precision(), 0.95)
	require.GreaterOrEqual(t, tuned.recall(), 0.95)
	require.GreaterOrEqual(t, heldOut.precision(), 0.9)
	require.GreaterOrEqual(t, heldOut.recall(), 0.7)
}

func TestClosedPagesOfCorpus(t *testing.T) {
	var tuned, heldOut score
	for _, e := range corpus(t, "closed.tsv") {
		var want, got []string
		if e.label != "open" {
			want = []string{e.label}
		}
		text := strings.ReplaceAll(e.text, " / ", "\n")
		if claim := pagetext.Closed(pagetext.Page{Text: text}); claim != nil {
			got = []string{string(claim.Status)}
			require.Contains(t, text, claim.Sentence)
		}
		if e.heldOut {
			heldOut.add(want, got)
			continue
		}
		tuned.add(want, got)
		if !slices.Equal(want, got) {
			t.Logf("%q: got %v, want %v", e.text, got, want)
		}
	}
	t.Logf("tuned: precision %.3f, recall %.3f; held out: precision %.3f, recall %.3f", tuned.precision(),
		tuned.recall(), heldOut.precision(), heldOut.recall())
	require.GreaterOrEqual(t, tuned.precision(), 0.98)
	require.GreaterOrEqual(t, tuned.recall(), 0.95)
	require.GreaterOrEqual(t, heldOut.precision(), 0.95)
	require.GreaterOrEqual(t, heldOut.recall(), 0.8)
}
