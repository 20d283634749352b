package setback_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/counter"
	"opportunity.internal/pkg/setback"
	"opportunity.internal/pkg/storetest/redistest"
)

var texts = []string{
	"", "x", "0123456789abcdef.7.ABC", "0123456789abcdef.0.", "0123456789abcdef.07.a",
	"0123456789abcdef.9999999999999999999.a", "0123456789ABCDEF.7.a",
	"0123456789abcdef.7.a\n", "0123456789abcdef.7.a b", "0123456789abcdef.-7.a", strings.Repeat("9", 40_000),
	"0123456789abcdef.7." + strings.Repeat("a", 49), "\x00.1.a", "a.b", "..",
}

func TestMarkForm(t *testing.T) {
	for i, text := range texts {
		m, ok := setback.Parse(text)
		require.Equal(t, i == 2 || i == 3, ok, "%.60q", text)
		if ok {
			require.Equal(t, text, m.String())
		}
	}
	require.Empty(t, setback.Mark{}.String())
}

func FuzzParse(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, ok := setback.Parse(text)
		if ok && (m.String() != text || len(text) > 100 || m.Sequence < 0) || !ok && m != (setback.Mark{}) {
			t.Fatalf("%q is %+v, %v", text, m, ok)
		}
	})
}

// A gateway presents what it and Redis remember, and gives Redis its memory back. A mark of another
// form in Redis is replaced.
func TestMemory(t *testing.T) {
	client := redistest.Start(t).Client()
	var presented []string
	newest, failed := "", error(nil)
	gateway := func() *setback.Memory {
		return &setback.Memory{Store: "catalog", Redis: client,
			Verify: func(_ context.Context, seen []string) (string, error) {
				presented = seen
				return newest, failed
			}}
	}
	const first, second, third = "0123456789abcdef.7.a", "0123456789abcdef.8.b", "00000000000000aa.6.c"
	stored := func() string { return client.HGet(t.Context(), counter.Marks, "catalog").Val() }
	g := gateway()
	exchange := func(g *setback.Memory, want ...string) {
		t.Helper()
		presented = nil
		require.ErrorIs(t, g.Exchange(t.Context(), stored(), true), failed)
		require.ElementsMatch(t, want, presented)
	}
	exchange(g)
	newest = first
	exchange(g)
	require.Equal(t, first, stored())
	newest = second
	exchange(g, first)
	require.Equal(t, second, stored())
	exchange(gateway(), second)

	failed = errors.New("set back")
	exchange(g, second)
	require.NoError(t, client.HSet(t.Context(), counter.Marks, "catalog", first).Err()) // as after a failover of Redis
	exchange(g, second, first)
	require.Equal(t, first, stored(), "not verified")
	for _, forged := range []string{"", "x", strings.Repeat("9", 40_000)} {
		require.NoError(t, client.HSet(t.Context(), counter.Marks, "catalog", forged).Err())
		exchange(g, second)
		require.Equal(t, second, stored(), "%.20q", forged)
	}
	newest, failed = third, nil // the loss was accepted
	exchange(g, second)
	exchange(g, third)
	require.Equal(t, third, stored())
}

// The script publishes only over the verified mark, raises epochs, and replaces those of another
// form.
func TestReplace(t *testing.T) {
	client := redistest.Start(t).Client()
	replace := func(verified, newest, mode string, epochs ...any) string {
		stored, err := setback.Replace(t.Context(), client, counter.Epochs, counter.EpochsMark, verified, newest, mode,
			epochs...)
		require.NoError(t, err)
		return stored
	}
	epoch := func(want string) {
		t.Helper()
		require.Equal(t, want, client.HGet(t.Context(), counter.Epochs, "acc").Val())
	}
	require.Empty(t, replace("", "m1", "", "acc", 7, "!acc", "c"))
	epoch("7")
	require.Equal(t, "c", client.HGet(t.Context(), counter.Epochs, "!acc").Val())
	require.Equal(t, "m1", replace("other", "m2", "", "acc", 8, "!acc", ""))
	epoch("7")
	require.Equal(t, "m1", replace("m1", "m2", "", "acc", 6, "!acc", ""))
	epoch("7")
	require.Equal(t, "m2", replace("m2", "", "", "acc", 8, "!acc", ""))
	epoch("8")
	require.False(t, client.HExists(t.Context(), counter.Epochs, "!acc").Val())
	require.Equal(t, "m2", replace("m2", "", "set", "acc", 5, "!acc", ""))
	epoch("5")
	for _, forged := range []string{"", "x", "nan", "inf", "1e300", "0x9", "-1", strings.Repeat("9", 40_000),
		"99999999999999999"} {
		require.NoError(t, client.HSet(t.Context(), counter.Epochs, "acc", forged).Err())
		replace("m2", "", "", "acc", 9, "!acc", "")
		epoch("9")
	}
	require.NoError(t, client.HSet(t.Context(), counter.Epochs, counter.EpochsMark, strings.Repeat("9", 40_000)).Err())
	require.Empty(t, replace("", "m3", ""))
}
