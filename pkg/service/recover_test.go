package service_test

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"opportunity.internal/pkg/service"
)

func TestRecoverNeedsOneDecision(t *testing.T) {
	var got service.Recovery
	verb := func(replays bool) service.Verb[struct{}] {
		return service.RecoverVerb("history", replays, nil, func(_ context.Context, _ struct{}, decision service.Recovery, _ io.Writer) error {
			got = decision
			return nil
		})
	}
	require.NoError(t, verb(true).Run(t.Context(), struct{}{}, []string{"--replay", "x.jsonl"}))
	require.Equal(t, service.Recovery{Replay: "x.jsonl"}, got)
	require.NoError(t, verb(false).Run(t.Context(), struct{}{}, []string{"--accept", "--operator", "ann"}))
	require.Equal(t, service.Recovery{Operator: "ann"}, got)

	for args, want := range map[string]string{
		"":                       "no decision",
		"--accept":               "needs --operator",
		"--operator ann":         "no decision",
		"--accept --replay x":    "no decision",
		"--replay x more":        `unexpected argument "more"`,
		"--accept --operator":    "flag needs an argument",
		"--no-such-flag ann bob": "not defined",
	} {
		err := verb(true).Run(t.Context(), struct{}{}, strings.Fields(args))
		require.ErrorContains(t, err, want, args)
		require.ErrorContains(t, err, "usage: history recover --accept --operator NAME | --replay FILE")
	}
	require.ErrorContains(t, verb(false).Run(t.Context(), struct{}{}, []string{"--replay", "x"}), "usage: history recover --accept --operator NAME")
}
