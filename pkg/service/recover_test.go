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
	verb := service.RecoverVerb("history", nil, func(_ context.Context, _ struct{}, decision service.Recovery,
		_ io.Writer) error {
		got = decision
		return nil
	})
	require.NoError(t, verb.Run(t.Context(), struct{}{}, []string{"--current", "--operator", "ann"}))
	require.Equal(t, service.Recovery{Current: true, Operator: "ann"}, got)
	require.NoError(t, verb.Run(t.Context(), struct{}{}, []string{"--accept", "--operator", "ann"}))
	require.Equal(t, service.Recovery{Operator: "ann"}, got)

	for args, want := range map[string]string{
		"":                       "no decision",
		"--accept":               "--operator is missing",
		"--operator ann":         "no decision",
		"--accept --current":     "no decision",
		"--current more":         `unexpected argument "more"`,
		"--accept --operator":    "flag needs an argument",
		"--no-such-flag ann bob": "not defined",
	} {
		err := verb.Run(t.Context(), struct{}{}, strings.Fields(args))
		require.ErrorContains(t, err, want, args)
		require.ErrorContains(t, err, "usage: history recover --accept|--current --operator NAME")
	}
}
