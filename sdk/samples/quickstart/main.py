"""Lists recently verified platforms on which residents of Ontario can sell."""

from opportunity_data import Client

client = Client()  # reads OPPORTUNITY_URL and OPPORTUNITY_KEY
for record in client.opportunities(country="CA", province="ON", category="sell", verified=True):
    print(record["id"], record["verification"]["status"], record["company"]["website"])
