package checkpoint_test

import (
	"bytes"
	"strings"
	"testing"

	"filippo.io/torchwood"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/tlog"

	"opportunity.internal/services/history/internal/checkpoint"
)

var seeds = []string{strings.Repeat("01", 32), strings.Repeat("02", 32)}

func keys(t testing.TB, seeds, retired []string) checkpoint.Keys {
	t.Helper()
	k, err := checkpoint.Config{SigningKeys: seeds, PublicKeys: retired}.Keys()
	require.NoError(t, err)
	return k
}

var example = torchwood.Checkpoint{Origin: "api.example/opportunity-history",
	Tree: tlog.Tree{N: 1284, Hash: tlog.Hash(bytes.Repeat([]byte{7}, 32))}}

func TestSignedCheckpointMatchesDocumentedLayout(t *testing.T) {
	k := keys(t, seeds[:1], nil)
	signed, err := k.Sign(example)
	require.NoError(t, err)
	require.Regexp(t, `^api.example/opportunity-history\n1284\nBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=\n`+
		`\n— api.example/opportunity-history [A-Za-z0-9+/]+={0,2}\n$`, signed)
	again, err := k.Open(signed)
	require.NoError(t, err)
	require.Equal(t, example, again.Checkpoint)
}

func TestAlteredTextOrUnknownKeyIsRejected(t *testing.T) {
	k := keys(t, seeds[:1], nil)
	signed, err := k.Sign(example)
	require.NoError(t, err)
	for i := range signed {
		if signed[i] == 'x' {
			continue
		}
		_, err := k.Open(signed[:i] + "x" + signed[i+1:])
		require.Error(t, err, "byte %d changed", i)
		_, err = k.Open(signed[:i])
		require.Error(t, err, "cut at %d", i)
	}
	for _, other := range []checkpoint.Keys{keys(t, seeds[1:], nil), keys(t, nil, nil)} {
		_, err = other.Open(signed)
		require.ErrorContains(t, err, "no key of this history signed it")
	}
	for name, c := range map[string]torchwood.Checkpoint{
		"empty": {Origin: example.Origin}, "extended": {Origin: example.Origin, Tree: example.Tree,
			Extension: "more\n"},
	} {
		signed, err := k.Sign(c)
		require.NoError(t, err)
		_, err = k.Open(signed)
		require.Error(t, err, name)
	}
}

func TestRotatedKeysStayTrusted(t *testing.T) {
	old := keys(t, seeds[:1], nil)
	signed, err := old.Sign(example)
	require.NoError(t, err)
	both := keys(t, []string{seeds[1], seeds[0]}, nil)
	after := keys(t, seeds[1:], old.Public(example.Origin))
	for _, k := range []checkpoint.Keys{both, after} {
		_, err = k.Open(signed)
		require.NoError(t, err)
		newer, err := k.Sign(example)
		require.NoError(t, err)
		_, err = old.Open(newer)
		require.Error(t, err, "the newest key signs")
		require.Len(t, k.Public(example.Origin), 2)
	}
	only := keys(t, nil, old.Public(example.Origin))
	require.False(t, only.Signs())
	_, err = only.Open(signed)
	require.NoError(t, err)
}

func TestErrorsOfInvalidKeysContainNoSeed(t *testing.T) {
	for _, seed := range []string{"", "0102", strings.Repeat("zz", 32), strings.Repeat("01", 33)} {
		_, err := checkpoint.Config{SigningKeys: []string{seed}}.Keys()
		require.ErrorContains(t, err, "32 bytes in hexadecimal")
		require.True(t, seed == "" || !strings.Contains(err.Error(), seed))
	}
	for _, public := range []string{"", "x", "other+0badc0de+AQ==",
		strings.Replace(keys(t, seeds[:1], nil).Public(example.Origin)[0], "opportunity", "x", 1)} {
		_, err := checkpoint.Config{PublicKeys: []string{public}}.Keys()
		require.ErrorContains(t, err, "is not a public key")
	}
	require.ErrorContains(t, checkpoint.Config{PublicKeys: []string{"x"}}.Validate(), "OPPORTUNITY_HISTORY_PUBLIC_KEYS")
	require.NoError(t, checkpoint.Config{SigningKeys: seeds}.Validate())
}

func TestMalformedSettingsAreNamed(t *testing.T) {
	for _, c := range []struct {
		config checkpoint.Config
		want   string
	}{
		{checkpoint.Config{LogName: "a b"}, "OPPORTUNITY_HISTORY_LOG_NAME"},
		{checkpoint.Config{LogName: "a+b"}, "OPPORTUNITY_HISTORY_LOG_NAME"},
		{checkpoint.Config{Witnesses: []string{"x"}}, "OPPORTUNITY_HISTORY_WITNESSES"},
		{checkpoint.Config{Threshold: 1}, "OPPORTUNITY_HISTORY_WITNESS_THRESHOLD"},
		{checkpoint.Config{Threshold: -1}, "OPPORTUNITY_HISTORY_WITNESS_THRESHOLD"},
	} {
		require.ErrorContains(t, c.config.Validate(), c.want)
	}
}

func FuzzOpen(f *testing.F) {
	k := keys(f, seeds[:1], nil)
	signed, err := k.Sign(example)
	require.NoError(f, err)
	f.Add(signed)
	f.Add("opportunity-history\n1\n\n\n— x y\n")
	f.Fuzz(func(t *testing.T, text string) {
		if c, err := k.Open(text); err == nil {
			require.Equal(t, example, c.Checkpoint)
		}
	})
}
