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

// decisions compares the decisions on the examples of a corpus with their labels.
func decisions(t *testing.T, name, undecided string, decide func(text string) []string) (tuned, heldOut score) {
	t.Helper()
	for _, e := range corpus(t, name) {
		var want []string
		if e.label != undecided {
			want = strings.Split(e.label, ",")
		}
		got := decide(e.text)
		slices.Sort(want)
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(want, got) {
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
	return tuned, heldOut
}

func TestSuggestionsForCorpus(t *testing.T) {
	tuned, heldOut := decisions(t, "suggest.tsv", "-", func(text string) (facts []string) {
		for _, q := range pagetext.Suggest("https://jobs.example/", pagetext.Page{Text: text}) {
			facts = append(facts, q.Fact)
		}
		return facts
	})
	require.GreaterOrEqual(t, tuned.precision(), 0.95)
	require.GreaterOrEqual(t, tuned.recall(), 0.95)
	require.GreaterOrEqual(t, heldOut.precision(), 0.9)
	require.GreaterOrEqual(t, heldOut.recall(), 0.7)
}

func TestClosedPagesOfCorpus(t *testing.T) {
	tuned, heldOut := decisions(t, "closed.tsv", "open", func(text string) []string {
		text = strings.ReplaceAll(text, " / ", "\n")
		claim := pagetext.Closed(pagetext.Page{Text: text})
		if claim == nil {
			return nil
		}
		require.Contains(t, text, claim.Sentence)
		return []string{string(claim.Status)}
	})
	require.GreaterOrEqual(t, tuned.precision(), 0.98)
	require.GreaterOrEqual(t, tuned.recall(), 0.95)
	require.GreaterOrEqual(t, heldOut.precision(), 0.95)
	require.GreaterOrEqual(t, heldOut.recall(), 0.8)
}
