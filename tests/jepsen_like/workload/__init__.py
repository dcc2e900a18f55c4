"""Operations: their records, and the clients that ask for them."""
