"""What is told elsewhere: to forges, by mail, by webhook and feed; and approvals carried out."""
