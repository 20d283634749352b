package command_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/command"
)

type settings struct {
	Word string `env:"OPPORTUNITY_WORD,required,notEmpty" doc:"A word."`
}

func TestServiceHasItsOwnVerbs(t *testing.T) {
	var ran []string
	record := func(name string) func(context.Context, settings, []string) error {
		return func(_ context.Context, s settings, args []string) error {
			ran = append(ran, strings.Join(append([]string{name, s.Word}, args...), " "))
			return nil
		}
	}
	s := command.Service[settings]{
		Name:  "test",
		Serve: func(ctx context.Context, c settings) error { return record("serve")(ctx, c, nil) },
		Verbs: map[string]command.Verb[settings]{
			"show":  {Usage: "[--at DATE] ID", Run: record("show")},
			"count": {Run: record("count")},
		},
	}
	main := func(args ...string) error {
		return s.Main(t.Context(), func(string) (string, bool) { return "yes", true }, args)
	}
	require.NoError(t, main("show", "--at", "2026-11-20", "maple"))
	require.NoError(t, main("count"))
	require.NoError(t, main("serve"))
	require.Equal(t, []string{"show yes --at 2026-11-20 maple", "count yes", "serve yes"}, ran)

	const usage = "usage: test serve | migrate | check | ready | count | show [--at DATE] ID"
	for _, wrong := range [][]string{nil, {"dance"}, {"serve", "now"}, {"migrate", "now"}, {"ready", "now"}, {"count", "more"}} {
		require.EqualError(t, main(wrong...), usage)
	}
	require.Len(t, ran, 3)
	require.ErrorContains(t, s.Main(t.Context(), func(string) (string, bool) { return "", false }, []string{"count"}), "OPPORTUNITY_WORD")
}
