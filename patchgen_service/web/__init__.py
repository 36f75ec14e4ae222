"""What browsers and scripts ask: pages, the API and the webhooks."""
