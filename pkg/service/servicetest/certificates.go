package servicetest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"testing"
	"time"

	"opportunity.internal/pkg/storetest"
)

// CA is a certificate authority of a test.
type CA struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// NewCA returns an authority that is valid for years.
func NewCA(t testing.TB) *CA {
	t.Helper()
	der, key := sign(t, nil, &x509.Certificate{
		Subject: pkix.Name{CommonName: "authority in tests"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().AddDate(-10, 0, 0), NotAfter: time.Now().AddDate(10, 0, 0), KeyUsage: x509.KeyUsageCertSign,
	})
	cert := storetest.Must(x509.ParseCertificate(der))(t)
	return &CA{cert, key}
}

// sign returns a certificate with a new key, signed by ca or, if it is nil, by its own key.
func sign(t testing.TB, ca *CA, template *x509.Certificate) (der []byte, key *ecdsa.PrivateKey) {
	t.Helper()
	key = storetest.Must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	if ca == nil {
		ca = &CA{template, key}
	}
	// with a random serial number
	return storetest.Must(x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key))(t), key
}

// PEM returns the certificate of the authority.
func (c *CA) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.cert.Raw})
}

// Pool returns a pool with the authority.
func (c *CA) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.cert)
	return pool
}

// Issue returns a certificate of a server with the names or IP addresses, and its key.
func (c *CA) Issue(t testing.TB, begin, end time.Time, names ...string) (cert, key []byte) {
	t.Helper()
	template := &x509.Certificate{
		NotBefore: begin, NotAfter: end,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, own := sign(t, c, template)
	private := storetest.Must(x509.MarshalPKCS8PrivateKey(own))(t)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}
