package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// proofCase is a case of conformance/proofs/cases.json: what verifying the proof of an event must return, or the reason of its error.
type proofCase struct {
	Name  string          `json:"name"`
	Event json.RawMessage `json:"event"`
	Proof string          `json:"proof"`
	Keys  proofKeys       `json:"keys"`
	Want  proofWant       `json:"want"`
}

type proofKeys struct {
	Log       []string `json:"log"`
	Witnesses []string `json:"witnesses,omitempty"`
	Quorum    int      `json:"quorum,omitempty"`
}

type proofWant struct {
	Reason     string      `json:"reason,omitempty"`
	Origin     string      `json:"origin,omitempty"`
	Size       int64       `json:"size,omitempty"`
	Index      int64       `json:"index,omitempty"`
	RecordedAt string      `json:"recordedAt,omitempty"`
	Witnesses  []proofSeen `json:"witnesses,omitempty"`
}

type proofSeen struct {
	Name string `json:"name"`
	At   string `json:"at"`
}

const (
	proofOrigin = "api.example/opportunity-history"
	proofTime   = "2026-11-20T09:30:00.123456Z"
	seenAt      = 1795167060 // 2026-11-20T09:31:00Z

	// An event with texts that a canonical form must write in one way, in canonical form.
	proofEvent = `{"checkType":"review","checkedAt":"2026-11-20T09:00:00.12Z","facts":{"applicationStatus":"open","languages":["fr"],` +
		`"pay":{"max":1e+21,"min":0.000001},"remote":true},"id":"0198f000-0000-7000-8000-000000000001","note":"Première <visite> & \"ok\"` + "\u2028" +
		`\u0007\n😀","outcome":"verified","slug":"odin-works","sourceUrls":["https://odin.example/a?b=1&c=2"],"😀":2,"` + "\ue000" + `":1}`
)

// proofLog is a log with the event at an index.
type proofLog struct {
	size, index int64
	path        []string
	root        tlog.Hash
}

func newProofLog(size, index int64, event, private, recordedAt string) proofLog {
	var hashes []tlog.Hash
	read := tlog.HashReaderFunc(func(indexes []int64) (out []tlog.Hash, err error) {
		for _, i := range indexes {
			out = append(out, hashes[i])
		}
		return out, nil
	})
	for i := range size {
		entry := fmt.Sprintf("entry %d", i)
		if i == index {
			entry = `{"event":` + event + `,"private":"` + private + `","recordedAt":"` + recordedAt + `"}`
		}
		added, err := tlog.StoredHashes(i, []byte(entry), read)
		must(err)
		hashes = append(hashes, added...)
	}
	root, err := tlog.TreeHash(size, read)
	must(err)
	proof, err := tlog.ProveRecord(size, index, read)
	must(err)
	l := proofLog{size: size, index: index, root: root}
	for _, h := range proof {
		l.path = append(l.path, h.String())
	}
	return l
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func (l proofLog) text() string {
	return fmt.Sprintf("%s\n%d\n%s\n", proofOrigin, l.size, l.root)
}

// proof returns the proof with a checkpoint.
func (l proofLog) proof(extra, checkpoint string) string {
	lines := append([]string{"c2sp.org/tlog-proof@v1", "extra " + base64.StdEncoding.EncodeToString([]byte(extra)), fmt.Sprintf("index %d", l.index)}, l.path...)
	return strings.Join(lines, "\n") + "\n\n" + checkpoint
}

type proofKey struct {
	name string
	kind byte
	key  ed25519.PrivateKey
}

func newProofKey(name string, kind byte, seed string) proofKey {
	return proofKey{name, kind, ed25519.NewKeyFromSeed(bytes.Repeat([]byte(seed), ed25519.SeedSize))}
}

func (k proofKey) id() []byte {
	sum := sha256.Sum256(append(append([]byte(k.name+"\n"), k.kind), k.key.Public().(ed25519.PublicKey)...))
	return sum[:4]
}

func (k proofKey) public() string {
	data := append([]byte{k.kind}, k.key.Public().(ed25519.PublicKey)...)
	return fmt.Sprintf("%s+%x+%s", k.name, k.id(), base64.StdEncoding.EncodeToString(data))
}

// line returns the signature line of a text.
func (k proofKey) line(text string) string {
	var signature []byte
	if k.kind == 4 {
		signature = append(binary.BigEndian.AppendUint64(nil, seenAt), ed25519.Sign(k.key, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", seenAt, text))...)
	} else {
		signature = ed25519.Sign(k.key, []byte(text))
	}
	return "— " + k.name + " " + base64.StdEncoding.EncodeToString(append(k.id(), signature...)) + "\n"
}

// emitProofs returns the cases of proofs as JSON.
func emitProofs() (string, error) {
	log, other := newProofKey(proofOrigin, 1, "l"), newProofKey(proofOrigin, 1, "o")
	w1, w2 := newProofKey("witness.example/w1", 4, "1"), newProofKey("witness.example/w2", 4, "2")
	for _, k := range []proofKey{log, other} { // another implementation reads them
		if _, err := note.NewVerifier(k.public()); err != nil {
			return "", err
		}
	}
	private := strings.Repeat("ab", 32)
	extra := `{"private":"` + private + `","recordedAt":"` + proofTime + `"}`
	keys := proofKeys{Log: []string{log.public()}}
	witnessed := proofKeys{Log: []string{other.public(), log.public()}, Witnesses: []string{w1.public(), w2.public()}}
	seen := []proofSeen{{w1.name, "2026-11-20T09:31:00Z"}, {w2.name, "2026-11-20T09:31:00Z"}}

	var cases []proofCase
	add := func(name, event, proof string, keys proofKeys, want proofWant) {
		cases = append(cases, proofCase{name, json.RawMessage(event), proof, keys, want})
	}
	proved := func(l proofLog, witnesses ...proofSeen) proofWant {
		return proofWant{Origin: proofOrigin, Size: l.size, Index: l.index, RecordedAt: proofTime, Witnesses: witnesses}
	}
	rejected := func(reason string) proofWant { return proofWant{Reason: reason} }
	for _, at := range [][2]int64{{1, 0}, {2, 0}, {2, 1}, {3, 2}, {7, 3}, {7, 6}, {8, 7}, {1000, 999}, {1000, 512}} {
		l := newProofLog(at[0], at[1], proofEvent, private, proofTime)
		add(fmt.Sprintf("event %d of %d", at[1], at[0]), proofEvent, l.proof(extra, l.text()+"\n"+log.line(l.text())), keys, proved(l))
	}
	l := newProofLog(7, 3, proofEvent, private, proofTime)
	signed := l.text() + "\n" + log.line(l.text())
	cosigned := signed + w1.line(l.text()) + w2.line(l.text())
	good := l.proof(extra, cosigned)
	unknown := "— witness.example/mldsa " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 2432)) + "\n"
	add("two witnesses, and a key of the log that did not sign", proofEvent, good, witnessed, proved(l, seen...))
	add("witnesses of whom the reader knows none", proofEvent, good, keys, proved(l))
	add("signatures of unknown kinds are ignored", proofEvent, l.proof(extra, signed+unknown+w2.line(l.text())),
		proofKeys{Log: keys.Log, Witnesses: witnessed.Witnesses, Quorum: 1}, proved(l, seen[1]))
	reordered := strings.Replace(proofEvent, `"remote":true`, `"remote": true`, 1)
	add("other white space in the event", reordered, good, keys, proved(l))
	later := strings.Replace(proofEvent, `"remote":true`, `"remote":true,"shifts":[{"night":null,"day":"unknown"}],"tips":[]`, 1)
	early := newProofLog(7, 3, strings.Replace(proofEvent, `"remote":true`, `"remote":true,"shifts":[{}]`, 1), private, proofTime)
	addedExtra := func(paths string) string { return strings.Replace(extra, "}", `,"added":[`+paths+`],"more":1}`, 1) }
	earlySigned := early.text() + "\n" + log.line(early.text())
	allAdded := `"facts.shifts.0.day","facts.shifts.0.night","facts.tips","facts.missing","facts.shifts.9.day"`
	add("members that the API gained later", later, early.proof(addedExtra(allAdded), earlySigned), keys, proved(early))
	add("the proof hides a value that the event has", strings.Replace(later, `"tips":[]`, `"tips":["yes"]`, 1),
		early.proof(addedExtra(allAdded), earlySigned), keys, rejected("hidden_value"))
	add("the proof hides false", strings.Replace(later, `"night":null`, `"night":false`, 1),
		early.proof(addedExtra(allAdded), earlySigned), keys, rejected("hidden_value"))

	for name, change := range map[string][2]string{
		"note": {"<visite>", "<visita>"}, "fact": {`"remote":true`, `"remote":false`}, "record": {"odin-works", "odin-work"},
		"number": {"0.000001", "0.000002"}, "removed member": {`"outcome":"verified",`, ""},
		"time of the check": {"09:00:00.12Z", "09:00:00.120Z"}, "source": {"c=2", "c=3"}, "added member": {`"slug"`, `"z":1,"slug"`},
	} {
		add("changed event: "+name, strings.Replace(proofEvent, change[0], change[1], 1), good, witnessed, rejected("different_event"))
	}
	for name, change := range map[string][2]string{"time of recording": {"09:30", "09:29"}, "private part": {"abab", "abac"}} {
		add("changed opening: "+name, proofEvent, l.proof(strings.Replace(extra, change[0], change[1], 1), cosigned), witnessed, rejected("different_event"))
	}
	path := l.path
	for name, change := range map[string]func(l *proofLog){
		"other index":     func(l *proofLog) { l.index = 2 },
		"index too large": func(l *proofLog) { l.index = 7 },
		"hash dropped":    func(l *proofLog) { l.path = path[:2] },
		"hash added":      func(l *proofLog) { l.path = append(path[:3:3], path[0]) },
		"hash repeated":   func(l *proofLog) { l.path = []string{path[0], path[0], path[2]} },
		"no hashes":       func(l *proofLog) { l.path = nil },
	} {
		changed := l
		change(&changed)
		add("forged path: "+name, proofEvent, changed.proof(extra, cosigned), witnessed, rejected("different_event"))
	}
	forged := strings.Replace(l.text(), "\n7\n", "\n8\n", 1)
	stranger, named := newProofKey("other.example/log", 1, "l"), newProofKey("evil.example/log", 1, "l")
	add("signature of another key", proofEvent, l.proof(extra, l.text()+"\n"+other.line(l.text())), keys, rejected("unknown_log"))
	add("key of another log", proofEvent, good, proofKeys{Log: []string{stranger.public()}}, rejected("unknown_log"))
	add("known key under another origin", proofEvent,
		l.proof(extra, strings.Replace(l.text(), proofOrigin, named.name, 1)+"\n"+log.line(strings.Replace(l.text(), proofOrigin, named.name, 1))),
		keys, rejected("unknown_log"))
	add("no keys", proofEvent, good, proofKeys{Log: []string{}}, rejected("unknown_log"))
	add("changed size", proofEvent, l.proof(extra, forged+"\n"+log.line(l.text())), keys, rejected("invalid_signature"))
	flipped := log.line(l.text())
	flipped = strings.Replace(flipped, flipped[len(flipped)-12:len(flipped)-8], "AAAA", 1)
	add("changed signature", proofEvent, l.proof(extra, l.text()+"\n"+flipped), keys, rejected("invalid_signature"))
	add("cosignature of another text", proofEvent, l.proof(extra, signed+w1.line(forged)), proofKeys{Log: keys.Log, Witnesses: []string{w1.public()}}, rejected("invalid_signature"))
	add("one witness of two", proofEvent, l.proof(extra, signed+w1.line(l.text())), witnessed, rejected("not_witnessed"))
	renamed := newProofKey("witness.example/w1", 4, "x")
	add("cosignature by another key with the name of the witness", proofEvent, l.proof(extra, signed+renamed.line(l.text())),
		proofKeys{Log: keys.Log, Witnesses: []string{w1.public()}}, rejected("not_witnessed"))
	for name, key := range map[string]string{
		"empty": "", "no base64": "a+00000000+!", "wrong id": strings.Replace(log.public(), "+", "+0", 1), "witness key": w1.public(),
		"short": "a+00000000+AQ==",
	} {
		add("malformed key: "+name, proofEvent, good, proofKeys{Log: []string{key}}, rejected("malformed_key"))
	}
	extended := l.text() + "extension\n"
	for name, proof := range map[string]string{
		"empty": "", "other version": strings.Replace(good, "@v1", "@v2", 1), "no extra": strings.Replace(good, "extra ", "", 1),
		"extra is not base64": strings.Replace(good, "extra e", "extra !", 1), "extra is not JSON": l.proof("{", cosigned), "extra is an array": l.proof("[]", cosigned),
		"index with a leading zero": strings.Replace(good, "index 3", "index 03", 1), "index with a sign": strings.Replace(good, "index 3", "index +3", 1),
		"no index": strings.Replace(good, "index 3\n", "", 1), "index beyond 2^53": strings.Replace(good, "index 3", "index 9007199254740993", 1),
		"short hash": strings.Replace(good, path[0], path[0][:40], 1), "hash with spaces": strings.Replace(good, path[0], path[0]+" ", 1),
		"loose base64": strings.Replace(good, path[0], path[0][:42]+"_=", 1), "no checkpoint": strings.Split(good, "\n\n")[0] + "\n",
		"64 hashes": strings.Replace(good, path[0], strings.Repeat(path[0]+"\n", 61)+path[0], 1), "extension line": l.proof(extra, extended+"\n"+log.line(extended)),
		"no signatures": l.proof(extra, l.text()+"\n"), "no line feed at the end": strings.TrimSuffix(good, "\n"), "trailing text": good + "x\n",
		"carriage returns": strings.ReplaceAll(good, "\n", "\r\n"), "hyphen as dash": strings.ReplaceAll(good, "— ", "- "),
		"no root": strings.Replace(good, l.root.String(), "", 1), "size is hexadecimal": strings.Replace(good, "\n7\n", "\n0x7\n", 1),
	} {
		add("malformed proof: "+name, proofEvent, proof, witnessed, rejected("malformed_proof"))
	}
	return encodeCases(cases)
}

// encodeCases returns the cases ordered by name, each on its line.
func encodeCases(cases []proofCase) (string, error) {
	slices.SortFunc(cases, func(a, b proofCase) int { return strings.Compare(a.Name, b.Name) })
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	for i, c := range cases {
		out.WriteString(map[bool]string{true: "[\n", false: ","}[i == 0])
		if err := enc.Encode(c); err != nil {
			return "", err
		}
	}
	return out.String() + "]\n", nil
}
