package checkpoint_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"filippo.io/torchwood"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Another implementation accepts and rejects the proofs of the conformance suite of the SDKs as
// they do. It is laxer in the form of a proof and in signatures beyond those that it needs, and
// knows nothing of events.
func TestTorchwoodAgreesWithTheConformanceSuite(t *testing.T) {
	text, err := os.ReadFile("../../../../sdk/conformance/proofs/cases.json")
	require.NoError(t, err)
	var cases []struct {
		Name, Proof string
		Keys        struct {
			Log, Witnesses []string
			Quorum         int
		}
		Want struct{ Reason string }
	}
	require.NoError(t, json.Unmarshal(text, &cases))
	verified := map[bool]int{}
	for _, c := range cases {
		switch c.Want.Reason {
		case "malformed_key", "malformed_proof":
			continue
		}
		if strings.HasPrefix(c.Name, "a valid and a changed") || strings.HasPrefix(c.Name, "cosignature at second") {
			continue // it reads the first signature of a key, and knows years beyond 9999
		}
		rest := strings.SplitN(c.Proof, "\n\n", 2)[1]
		origin, _, _ := strings.Cut(rest, "\n")
		var logs, witnesses []torchwood.Policy
		for _, key := range c.Keys.Log {
			v, err := note.NewVerifier(key)
			require.NoError(t, err)
			logs = append(logs, torchwood.ThresholdPolicy(2, torchwood.OriginPolicy(v.Name()),
				torchwood.SingleVerifierPolicy(v)))
		}
		for _, key := range c.Keys.Witnesses {
			v, err := torchwood.NewCosignatureVerifier(key)
			require.NoError(t, err)
			witnesses = append(witnesses, torchwood.SingleVerifierPolicy(v))
		}
		quorum := c.Keys.Quorum
		if quorum == 0 {
			quorum = len(witnesses)
		}
		leaf, err := torchwood.ProofExtraData([]byte(c.Proof))
		require.NoError(t, err, c.Name)
		policy := torchwood.ThresholdPolicy(3, torchwood.OriginPolicy(origin),
			torchwood.ThresholdPolicy(min(1, len(logs)), logs...), torchwood.ThresholdPolicy(quorum, witnesses...))
		if len(logs) == 0 {
			continue // it then needs no signature
		}
		err = torchwood.VerifyProof(policy, tlog.RecordHash(leaf), []byte(c.Proof))
		want := c.Want.Reason == "" || c.Want.Reason == "malformed_event"
		require.Equal(t, want, err == nil, "%s: %v", c.Name, err)
		verified[want]++
	}
	require.Greater(t, verified[true], 15)
	require.Greater(t, verified[false], 30)
}
