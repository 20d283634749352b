package keyusage_test

import (
	"encoding/csv"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"opportunity.internal/pkg/api"
	"opportunity.internal/services/authquota/internal/keyusage"
)

func TestCSV(t *testing.T) {
	var out strings.Builder
	file := keyusage.NewCSV(&out)
	require.NoError(t, file.Write([]keyusage.Line{{"2026-11-20", keyA, `The "shop", old`, api.CallServed, 12}}))
	require.NoError(t, file.Write(nil))
	require.NoError(t, file.Write([]keyusage.Line{{"2026-11-20", keyB, "=HYPERLINK(\"https://evil.example\")", api.CallNotFound, 3}}))
	require.Equal(t, "day,key,key name,outcome,requests\r\n"+
		"2026-11-20,"+keyA+",\"The \"\"shop\"\", old\",served,12\r\n"+
		"2026-11-20,"+keyB+",\"'=HYPERLINK(\"\"https://evil.example\"\")\",not_found,3\r\n", out.String())

	out.Reset()
	require.NoError(t, keyusage.NewCSV(&out).Write(nil))
	require.Equal(t, "day,key,key name,outcome,requests\r\n", out.String(), "an account without calls has a file all the same")

	require.Error(t, keyusage.NewCSV(broken{}).Write(nil))
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("nobody reads") }

// For any key name, the file can be parsed and no cell starts a formula.
func TestCSVHasNoFormulas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prefix := rapid.SampledFrom([]string{"", "=", "+", "-", "@", "\t", "＝", "＠", ";=", " =", "\u200b=", "\ufeff +", "\u202e@", "\u00a0-"}).Draw(t, "prefix")
		name := prefix + rapid.StringMatching(`[ -~é“]{0,20}`).Draw(t, "name")
		var out strings.Builder
		if err := keyusage.NewCSV(&out).Write([]keyusage.Line{{"2026-11-20", keyA, name, api.CallServed, 1}}); err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(strings.NewReader(out.String())).ReadAll()
		if err != nil || len(rows) != 2 || len(rows[1]) != 5 {
			t.Fatalf("%v %v", rows, err)
		}
		got := rows[1][2]
		if api.UnescapeFormulas(got) != name {
			t.Fatalf("%q became %q", name, got)
		}
		if seen := strings.TrimLeft(got, " \u00a0\u200b\u202e\ufeff"); seen != "" && strings.ContainsAny(seen[:1], "=+-@\t\r") || strings.Contains(got, ";=") {
			t.Fatalf("%q begins a formula", got)
		}
	})
}
